// Runs before the page is shown: the reader's choice of light or dark, and what only scripts can do.
{
  const root = document.documentElement
  root.classList.add('scripts')
  try {
    const theme = localStorage.getItem('theme')
    if (theme) root.dataset.theme = theme
  } catch {
    // Storage is forbidden: the theme of the system.
  }
}
