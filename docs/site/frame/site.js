// The parts of a page that need scripts: the theme, buttons that copy, versions, and what marks the
// section that is read.
{
  const { root, version, copy, copied } = document.body.dataset

  // The choice is kept only while it differs from the theme of the system.
  document.querySelector('button.theme').addEventListener('click', () => {
    const html = document.documentElement
    const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
    const next = (html.dataset.theme ?? system) === 'dark' ? 'light' : 'dark'
    if (next === system) delete html.dataset.theme
    else html.dataset.theme = next
    try {
      if (next === system) localStorage.removeItem('theme')
      else localStorage.setItem('theme', next)
    } catch {
      // Storage is forbidden: the choice ends with the page.
    }
  })

  for (const block of document.querySelectorAll('.code:not([data-form=plain])')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy'
    button.textContent = copy
    button.addEventListener('click', async () => {
      const commands = [...block.querySelectorAll('.command')].map(c => c.textContent)
      await navigator.clipboard.writeText(commands.length ? commands.join('\n') : block.querySelector('code').textContent.trimEnd())
      button.textContent = copied
      setTimeout(() => { button.textContent = copy }, 2000)
    })
    block.append(button)
  }

  // Boxes that scroll can be reached by the keyboard, and only these.
  const boxes = new ResizeObserver(entries => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0
      else target.removeAttribute('tabindex')
    }
  })
  for (const box of document.querySelectorAll('.scroll')) boxes.observe(box)

  // The heading nearest above the upper third of the window is the one that is read.
  const links = new Map([...document.querySelectorAll('.toc a')].map(a => [decodeURIComponent(a.hash.slice(1)), a]))
  const headings = [...document.querySelectorAll('article :is(h2, h3)')].filter(h => links.has(h.id))
  const mark = () => {
    const line = innerHeight / 3
    const read = headings.findLast(h => h.getBoundingClientRect().top < line)
    for (const [id, a] of links) a.classList.toggle('read', id === read?.id)
  }
  if (headings.length) {
    addEventListener('scroll', mark, { passive: true })
    mark()
  }

  // The list of pages shows this one. It alone scrolls, and not the page.
  const pages = document.querySelector('.pages')
  const current = pages.querySelector('[aria-current]')
  if (current) pages.scrollTop = Math.max(0, current.offsetTop - pages.clientHeight / 2)

  // Other versions stand beside this one. A page that the other one lacks leads to its first page.
  const offer = async () => {
    const all = new URL(`${root}../`, location.href)
    const response = await fetch(new URL('versions.json', all))
    const versions = response.ok ? await response.json() : []
    if (versions.length < 2 || !versions.includes(version)) return
    const select = document.querySelector('select.version')
    select.append(...versions.map(v => new Option(v, v, v === version, v === version)))
    select.hidden = false
    document.querySelector('span.version').hidden = true
    const here = location.href.slice(new URL(root || '.', location.href).href.length)
    select.addEventListener('change', async () => {
      const there = new URL(`${select.value}/`, all)
      const same = new URL(here, there)
      location.href = (await fetch(same, { method: 'HEAD' })).ok ? same : there
    })
  }
  // A page from a disk cannot read other files.
  if (location.protocol !== 'file:') offer().catch(() => {})
}
