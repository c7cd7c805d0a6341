// Axes, grids and the heat map follow the reader's light or dark setting; the rest of the page does so by page.css.
const query = window.matchMedia("(prefers-color-scheme: dark)")
const paint = () => {
  const [text, line, palette] = query.matches ? night : day
  for (const axis of axes) axis.setv({axis_label_text_color: text, major_label_text_color: text})
  for (const grid of grids) grid.setv({grid_line_color: line})
  for (const legend of legends) legend.setv({label_text_color: text})
  for (const bar of bars) bar.setv({major_label_text_color: text, title_text_color: text})
  for (const heat of heats) heat.setv({palette})
}
paint()
if (window.innerWidth < 600) for (const legend of legends) legend.ncols = 2
query.addEventListener("change", paint)
document.documentElement.dataset.ready = "yes"
