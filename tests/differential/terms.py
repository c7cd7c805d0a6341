"""Expressions of one side, by the kind of value that they give, and constants of the same kinds.

A term is SQL text with `@` for the side's alias. Kinds that Spark compares with each other are listed in MEETING.
Not here: how terms become conditions (conditions.py).
"""

from __future__ import annotations

_TEXTS = {
    "whole": """
        @.i8; @.i16; @.i; @.i; @.i; @.n; @.n; @.i + 5; @.i - 1; @.n + 5; @.n + @.i; -@.i; abs(@.i); @.i % -1;
        @.n % 3; @.i * 2; @.i8 + @.i8; CAST(@.d AS INT); CAST(@.s AS INT); TRY_CAST(@.s AS INT); length(@.s);
        floor(@.d); ceil(@.m); round(@.i, -1); hour(@.t); day(@.t); minute(@.z); hour(@.z);
        datediff(@.a, DATE'2026-03-01'); CAST(@.t AS BIGINT); year(@.a); size(@.arr); @.arr[0]; @.arr[1]; @.mp['a'];
        @.st.p; @.i DIV 3; @.i & 3; unix_seconds(@.t); dayofweek(@.a); month(@.t); extract(HOUR FROM @.v);
        CAST(@.b AS INT); CAST(@.m AS INT); CAST(@.n AS INT); datediff(@.t, @.a); element_at(@.arr, 1); ascii(@.s);
        crc32(@.y); coalesce(@.i, 0); nullif(@.i, 5); if(@.b, @.i, @.i8); CASE WHEN @.i > 3 THEN @.i ELSE 0 END;
        greatest(@.i, @.i8); shiftleft(@.i, 1); bigint(@.i); @.i + 1 - 1; pmod(@.i, 3); year(@.s); hour(@.s);
        datediff(@.s, @.a); floor(@.s); coalesce(@.s, 0); nvl(@.i, @.s); if(@.s = 5, 1, 0); map(@.s, 1)['5'];
        CASE WHEN @.s > 5 THEN 1 ELSE 0 END; length(concat(@.s, @.i)); int(@.vc)
        """,
    "real": """
        @.f; @.d; @.d; @.d; @.d + 0.1; @.d - 0.1D; @.f + 1; round(@.d, 2); round(@.d, 1); @.d * 3; @.i / 3;
        CAST(@.m AS DOUBLE); abs(@.d); CAST(@.s AS DOUBLE); TRY_CAST(@.s AS DOUBLE); sqrt(@.d); CAST(@.w AS FLOAT);
        CAST(@.n AS DOUBLE); -@.d; @.d / 3; nanvl(@.d, 0D); 100 / @.i; CAST(@.d AS FLOAT); pow(@.d, 2); @.d + @.f;
        CAST(@.t AS DOUBLE); bround(@.d, 1); sqrt(@.s); coalesce(@.d, @.s); double(@.s)
        """,
    "exact": """
        @.m; @.m; @.m; @.w; @.q; @.m + 1; @.m - 0.01; @.m * @.m; @.m / 3; @.w * @.w; round(@.m, 1); round(@.m, 0);
        round(@.w, 2); CAST(@.d AS DECIMAL(5,2)); CAST(@.w AS DECIMAL(5,2)); @.m % 0.07; CAST(@.i AS DECIMAL(5,2));
        @.w + 0.5; CAST(@.s AS DECIMAL(5,2)); @.q + 1; @.q * 1.5; ceil(@.w); floor(@.m); -@.m; abs(@.m);
        TRY_CAST(@.d AS DECIMAL(3,1)); CAST(@.n AS DECIMAL(20,2)); @.m + @.w; CAST(@.t AS DECIMAL(20,6))
        """,
    "text": """
        @.s; @.s; @.s; @.vc; @.c; @.u; upper(@.s); lower(@.s); trim(@.s); substr(@.s, 1, 3); concat(@.s, 'x');
        CAST(@.m AS STRING); CAST(@.d AS STRING); CAST(@.t AS STRING); CAST(@.z AS STRING); CAST(@.a AS STRING);
        initcap(@.s); rtrim(@.c); @.s || '5'; date_format(@.t, 'yyyy-MM-dd HH'); reverse(@.s); lpad(@.s, 4, '0');
        CAST(@.i AS STRING); CAST(@.w AS STRING); @.st.q; upper(@.c); lower(@.u); CAST(@.b AS STRING);
        CAST(@.f AS STRING); CAST(@.v AS STRING); regexp_replace(@.s, 'a', 'b'); md5(@.s); hex(@.y);
        translate(@.s, 'aß', 'bs'); split(@.s, ' ')[0]; CAST(@.y AS STRING); left(@.s, 2); date_format(@.a, 'E')
        """,
    "time": """
        @.t; @.t; @.t; @.t; @.t + INTERVAL 5 MINUTES; @.t - INTERVAL 1 DAY; @.t + INTERVAL 24 HOURS;
        @.t + INTERVAL 23 HOURS; @.t - INTERVAL 1 MONTH; @.t + @.v; date_trunc('DAY', @.t); date_trunc('HOUR', @.t);
        CAST(@.z AS TIMESTAMP); CAST(@.a AS TIMESTAMP); CAST(@.s AS TIMESTAMP); TRY_CAST(@.s AS TIMESTAMP);
        @.t + INTERVAL '1 02:00:00' DAY TO SECOND; timestampadd(DAY, 1, @.t); to_timestamp(@.s);
        from_utc_timestamp(@.t, 'Asia/Tokyo'); timestamp_seconds(@.i); timestamp(@.s); date_trunc('DAY', @.s);
        coalesce(@.t, @.s)
        """,
    "wall": """
        @.z; @.z; @.z; @.z + INTERVAL 5 MINUTES; @.z - INTERVAL 1 DAY; @.z + INTERVAL 30 HOURS;
        CAST(@.t AS TIMESTAMP_NTZ); CAST(@.a AS TIMESTAMP_NTZ); @.z - INTERVAL 1 MONTH; CAST(@.s AS TIMESTAMP_NTZ);
        date_trunc('DAY', @.z); @.z + @.v
        """,
    "date": """
        @.a; @.a; @.a; @.a + 1; @.a - 1; date_add(@.a, 2); CAST(@.t AS DATE); CAST(@.z AS DATE);
        @.a + INTERVAL 1 MONTH; last_day(@.a); trunc(@.a, 'MM'); add_months(@.a, -1); to_date(@.s);
        CAST(@.s AS DATE); @.a + @.i8; next_day(@.a, 'MO'); date(@.s); date_add(@.a, @.s); last_day(@.s);
        if(@.b, @.a, @.s)
        """,
    "span": """
        @.v; @.v; @.v + INTERVAL 1 DAY; @.t - TIMESTAMP'2026-03-08 00:00:00';
        @.z - TIMESTAMP_NTZ'2026-03-08 00:00:00'; @.v * 2; -@.v; abs(@.v); @.a - DATE'2026-03-08'; @.t - @.z;
        make_dt_interval(0, @.i8)
        """,
    "truth": """
        @.b; @.s LIKE 'a%'; @.i IN (1, 2, 5, NULL); @.s RLIKE '^s'; @.d > 0; @.t IS NULL; isnan(@.d); @.u = 'a';
        @.c = 'a'; @.s ILIKE 'I%'; @.arr IS NOT NULL; @.t > '2026-03-08 01:00:00';
        @.a BETWEEN DATE'2026-03-01' AND DATE'2026-03-31'; array_contains(@.arr, 5); NOT @.b; @.s <=> NULL;
        @.m > 0.29; @.d = 0.3; @.i = '5'; @.i BETWEEN @.i8 AND 7; @.t = @.a; @.f = 0.3; @.n > 2147483647.5;
        @.c IN ('a', 'abc'); @.a = '2026-03-08'; startswith(@.s, 'a'); @.v >= INTERVAL 24 HOURS;
        exists(@.arr, x -> x > 4)
        """,
    "bytes": "@.y; @.y; CAST(@.s AS BINARY); unhex(hex(@.y)); substr(@.y, 1, 1)",
    "list": "@.arr; array(@.i, 2); slice(@.arr, 1, 2); array(@.i8, @.i); sort_array(@.arr)",
    "record": "@.st; named_struct('p', @.i, 'q', @.s); struct(@.i AS p, @.s AS q)",
    "table": "@.mp; map('a', @.i)",
}  # fmt: skip
TERMS = {kind: [term.strip() for term in texts.replace("\n", " ").split(";")] for kind, texts in _TEXTS.items()}

CONSTANTS = {
    "whole": ["0", "1", "-1", "5", "2147483647", "9223372036854775807", "3000000000", "2.5", "'5'"],
    "real": ["0.3", "0.7D", "0.285D", "5.015D", "1e308D", "CAST('NaN' AS DOUBLE)", "0", "1.5F", "0.1"],
    "exact": ["0.3", "999.99", "1000", "0.005", "5", "0.3D", "-1"],
    "text": ["'straße'", "'a'", "'5'", "'STRASSE'", "'σας'", "5", "'2026-03-08'", "''", "'a '"],
    "time": [
        "TIMESTAMP'2026-03-08 02:30:00'",
        "'2026-11-01 01:30:00'",
        "DATE'2026-03-08'",
        "TIMESTAMP_NTZ'2026-03-08 03:00:00'",
        "TIMESTAMP'2026-03-08 07:00:00Z'",
    ],
    "wall": ["TIMESTAMP_NTZ'2026-03-08 02:30:00'", "TIMESTAMP'2026-11-01 01:30:00'", "'2026-03-08 00:00:00'"],
    "date": ["DATE'2026-03-08'", "'2026-03-08'", "TIMESTAMP'2026-03-08 00:00:00'", "DATE'1582-10-10'"],
    "span": ["INTERVAL 1 DAY", "INTERVAL 24 HOURS", "INTERVAL '1 12' DAY TO HOUR", "INTERVAL 0 SECONDS"],
    "truth": ["true", "false"],
    "bytes": ["X'61'", "X''", "'a'"],
    "list": ["array(1, 2)", "array()"],
    "record": ["named_struct('p', 1, 'q', 'a')"],
    "table": ["map('a', 1)"],
}
STEPS = {
    "whole": ["1", "5", "2147483647", "3000000000L", "0", "2", "1.5", "0.3"],
    "real": ["0.1", "0.3D", "1", "1e-9D", "2.5"],
    "exact": ["0.01", "1", "0.3", "0.005", "2"],
    "time": [
        "INTERVAL 5 MINUTES",
        "INTERVAL 1 DAY",
        "INTERVAL 24 HOURS",
        "INTERVAL 90 MINUTES",
        "INTERVAL 1 MONTH",
        "INTERVAL '23:59:59' HOUR TO SECOND",
        "INTERVAL 1 DAY 2 HOURS",
        "INTERVAL -3 HOURS",
        "INTERVAL 2 WEEKS",
    ],
    "wall": ["INTERVAL 5 MINUTES", "INTERVAL 1 DAY", "INTERVAL 30 HOURS", "INTERVAL 1 MONTH"],
    "date": ["1", "30", "INTERVAL 1 DAY", "INTERVAL 1 MONTH", "INTERVAL 1 HOUR"],
    "span": ["INTERVAL 1 DAY", "INTERVAL 1 HOUR", "INTERVAL 90 SECONDS"],
}
"""What values of a kind can be moved by."""
LENGTHS = {
    **STEPS,
    "date": ["1", "INTERVAL 1 DAY", "INTERVAL 30 HOURS"],
    "time": [*STEPS["time"], "INTERVAL 0 SECONDS", "CAST(INTERVAL 1 DAY AS INTERVAL DAY TO SECOND)"],
}
"""What differences of two values of a kind can be compared with."""

MEETING = {
    "whole": ["whole", "whole", "whole", "real", "exact", "text", "truth"],
    "real": ["real", "real", "whole", "exact", "text"],
    "exact": ["exact", "exact", "whole", "real", "text"],
    "text": ["text", "text", "text", "whole", "real", "exact", "time", "date", "wall", "truth", "bytes"],
    "time": ["time", "time", "time", "wall", "date", "text"],
    "wall": ["wall", "wall", "time", "date", "text"],
    "date": ["date", "date", "time", "wall", "text"],
    "span": ["span", "span", "text"],
    "truth": ["truth", "truth", "text", "whole"],
    "bytes": ["bytes", "bytes", "text"],
    "list": ["list"],
    "record": ["record"],
    "table": ["table"],
}
"""The kinds that a value of a kind is compared with, more often those named more often."""

BOTH = """
    concat(@.s, #.s) = '5x'; concat(@.s, #.vc) = concat(#.s, @.vc); greatest(@.i, #.i) = 5; coalesce(@.i, #.i) > 3;
    @.i * #.i > 10; @.s LIKE concat(#.s, '%'); @.arr[#.i8] = 2; CASE WHEN @.i > #.i THEN @.b ELSE #.b END;
    if(@.i = #.i, @.d > #.d, @.s = #.s); #.mp[@.c] = 5; @.d / #.d > 1; 100 / @.i > #.d; @.i + #.i = -2;
    @.i8 + #.i8 = 5; @.n - #.n = 2; @.n + #.n > 7; 2 * @.i = #.i; @.i - 2 * #.i > 1; array_contains(@.arr, #.i);
    levenshtein(@.s, #.s) <= 1; @.t - #.t = INTERVAL 1 DAY; CAST(@.t - #.t AS BIGINT) > 3600;
    datediff(@.a, #.a) BETWEEN 0 AND 2; months_between(@.a, #.a) >= 1; @.d + #.d = 0.4; @.m * #.m > 1;
    @.s || #.s = '55'; @.i % #.i = 1; @.a - #.a = INTERVAL 1 DAY; @.a - #.a < INTERVAL 36 HOURS;
    @.d - #.d BETWEEN -0.1 AND 0.2; @.m + #.m = 0.6; @.i = #.i OR (@.i IS NULL AND #.i IS NULL);
    @.s IN (#.s, #.vc, 'a'); (@.i, @.s) = (#.i, #.s); struct(@.i, @.b) IN (struct(#.i, #.b));
    @.i IS DISTINCT FROM #.i; NOT (@.i = #.i OR @.s = #.s); @.i = #.i <=> @.b; (@.i > 1) = (#.i > 1);
    @.t BETWEEN #.t AND #.t + #.v; @.i & #.i = 1; @.i <> #.i AND @.i <= #.i; if(#.i = 0, 0, @.i / #.i) > 1;
    @.w * #.w > 1; @.q + #.q > 10; nvl(@.s, #.s) = 'a'; @.i BETWEEN #.i8 AND #.i16; @.i16 - #.i8 IN (0, 1)
    """  # fmt: skip
BOTH_TERMS = [term.strip() for term in BOTH.replace("\n", " ").split(";")]
"""Conjuncts that read both sides at once, with `@` and `#` for the aliases."""
