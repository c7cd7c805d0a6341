#!/bin/sh
# What the Makefile needs from the machine and pip cannot bring: Java 17+, a Python that can make a venv, and Chromium
# for the tests of the page.
#
#   system.sh java      Java 17+ is there, or is installed through the system's package manager where that is
#                       allowed (root, sudo without a password, or Homebrew), or the exact command is printed and 1 returned
#   system.sh venv PY   make .venv with PY (or a newer python3.x found), installing Debian's python3-venv when it is missing
#   system.sh chromium  the same for Chromium
#   system.sh home      print a JAVA_HOME worth exporting, or nothing (Homebrew's Java is not on the PATH)
#
# It never downloads anything itself and knows no addresses.

wanted=17

say() { printf 'evenjoin: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

java_home() {
    if [ -n "$JAVA_HOME" ]; then echo "$JAVA_HOME"; return; fi
    [ "$(uname -s)" = Darwin ] || return 0
    found=$(/usr/libexec/java_home -v "$wanted+" 2>/dev/null) && [ -n "$found" ] && { echo "$found"; return; }
    have brew || return 0
    for formula in openjdk@17 openjdk@21; do
        prefix=$(brew --prefix "$formula" 2>/dev/null) && [ -x "$prefix/bin/java" ] && { echo "$prefix"; return; }
    done
}

java_major() { # prints 0 when there is no working Java
    home=$(java_home)
    text=$("${home:+$home/bin/}java" -version 2>&1) || { echo 0; return; }
    # 'openjdk version "17.0.15" ...'; before Java 9 it was "1.8.0"
    echo "$text" | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

as_root() { # the prefix that gives root, or failure
    if [ "$(id -u)" = 0 ]; then echo env; elif have sudo && sudo -n true 2>/dev/null; then echo "sudo env"; else return 1; fi
}

install_with() { # manager package...: the command that installs the first package that works
    manager=$1; shift
    case $manager in
        brew) for package; do brew install "$package" && return 0; done; return 1 ;;
    esac
    root=$(as_root) || return 1
    [ "$manager" = apt-get ] && $root apt-get update -qq
    for package; do
        case $manager in
            apt-get) $root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" && return 0 ;;
            dnf | yum) $root "$manager" install -y -q "$package" && return 0 ;;
            apk) $root apk add -q "$package" && return 0 ;;
        esac
    done
    return 1
}

need_java() {
    [ "$(java_major)" -ge $wanted ] 2>/dev/null && return 0
    if [ -n "$JAVA_HOME" ]; then try=""; hint="unset JAVA_HOME    # it is $JAVA_HOME, which holds no Java $wanted or newer"
    elif have apt-get; then try="apt-get openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless"; hint="sudo apt-get install -y openjdk-17-jre-headless"
    elif have dnf; then try="dnf java-17-openjdk-headless java-21-openjdk-headless java-latest-openjdk-headless"; hint="sudo dnf install -y java-17-openjdk-headless"
    elif have yum; then try="yum java-17-openjdk-headless java-21-openjdk-headless"; hint="sudo yum install -y java-17-openjdk-headless"
    elif have apk; then try="apk openjdk17-jre-headless openjdk21-jre-headless"; hint="sudo apk add openjdk17-jre-headless"
    elif have brew; then try="brew openjdk@17"; hint="brew install openjdk@17"
    else try=""; hint="install a Java $wanted or newer runtime and put it on the PATH or into JAVA_HOME"
    fi
    if [ -n "$try" ]; then
        say "Spark needs Java $wanted or newer and found $(java_major | sed 's/^0*$/none/'); trying to install it"
        # shellcheck disable=SC2086
        install_with $try >&2 && [ "$(java_major)" -ge $wanted ] 2>/dev/null && return 0
    fi
    say "Spark needs Java $wanted or newer. Run this, then try again:"
    say "    $hint"
    return 1
}

need_chromium() {
    have chromium && return 0
    hint="install Chromium so that 'chromium' is on the PATH"
    if have apt-get; then manager=apt-get; hint="sudo apt-get install -y chromium"
    elif have dnf; then manager=dnf; hint="sudo dnf install -y chromium"
    elif have apk; then manager=apk; hint="sudo apk add chromium"
    else manager=""
    fi
    if [ -n "$manager" ]; then
        say "the tests of the page need Chromium; trying to install it"
        install_with $manager chromium >&2 && have chromium && return 0
    fi
    say "The tests of the page need Chromium. Run this, then try again:"
    say "    $hint"
    return 1
}

good_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

make_venv() {
    python=""
    for candidate in "$1" python3.13 python3.12 python3.11 python3.10 python3.14; do
        good_python "$candidate" && { python=$candidate; break; }
    done
    [ -n "$python" ] || { say "Python 3.10 or newer is needed; '$1' is not. Try: make PYTHON=/path/to/python3.11"; return 1; }
    "$python" -c 'import ensurepip, venv' 2>/dev/null || no_venv "$python" || return 1
    "$python" -m venv --clear .venv
}

no_venv() { # Debian and Ubuntu ship python3 without ensurepip
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    have apt-get && install_with apt-get "python$version-venv" python3-venv >&2 && return 0
    say "'$1 -m venv' does not work here: the module ensurepip is missing. Run this, then try again:"
    say "    sudo apt-get install -y python$version-venv"
    return 1
}

case $1 in
    java) need_java ;;
    venv) make_venv "${2:-python3}" ;;
    chromium) need_chromium ;;
    home) java_home ;;
    *) say "usage: system.sh java | venv PYTHON | chromium | home"; exit 2 ;;
esac
