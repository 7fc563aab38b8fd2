// Search in all pages, with no index but the text itself: a passage is found if it has all words,
// as they are or as parts of others.
{
  const dialog = document.querySelector('dialog.search')
  const input = dialog.querySelector('input')
  const list = dialog.querySelector('#found')
  const nothing = dialog.querySelector('.nothing')
  const { root, passages: source, nothing: none } = document.body.dataset
  const { lang } = document.documentElement
  const most = 20
  let all, loading, selected = -1

  const fold = text => text.normalize('NFKC').toLowerCase()

  // load returns the passages, each with its texts folded once.
  const load = () => loading ??= new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = source
    script.onload = () => {
      all = window.passages.map((p, order) => ({ ...p, h: p.h ?? '', l: p.l ?? 'en', order, page: fold(p.p), heading: fold(p.h ?? ''), text: fold(p.t) }))
      resolve()
    }
    script.onerror = reject
    document.head.append(script)
  })

  const letter = /[\p{L}\p{N}]/u

  // quality is 0 if a text lacks a word, and more for a word that is not part of another one.
  const quality = (text, word) => {
    let best = 0
    for (let at = text.indexOf(word); at >= 0 && best < 3; at = text.indexOf(word, at + 1)) {
      const begins = at === 0 || !letter.test(text[at - 1])
      const ends = at + word.length === text.length || !letter.test(text[at + word.length])
      best = Math.max(best, begins && ends ? 3 : begins ? 2 : 1)
    }
    return best
  }

  // score is 0 for a passage that lacks a word. Titles count more than text, the reader's language
  // more than another one, the words side by side more than apart, and a title more if it has little else.
  const score = (p, words, phrase) => {
    let sum = 0
    for (const word of words) {
      const one = 12 * quality(p.heading, word) + (p.heading ? 4 : 22) * quality(p.page, word) + 2 * quality(p.text, word)
      if (!one) return 0
      sum += one
    }
    const title = p.heading || p.page
    if (title.includes(phrase)) sum += 10 + 40 * phrase.length / title.length
    else if (words.length > 1 && p.text.includes(phrase)) sum += 15
    // Decisions and lists of changes are read less often than pages that say how to do something.
    if (/decisions\/|CHANGELOG/.test(p.u)) sum /= 2
    return p.l === lang ? sum : sum / 3
  }

  const find = query => {
    const phrase = fold(query).trim().replace(/\s+/g, ' ')
    const words = [...new Set(phrase.split(' '))].filter(Boolean)
    if (!words.length) return { words, found: [] }
    const found = all.map(p => ({ p, score: score(p, words, phrase) })).filter(f => f.score > 0)
    found.sort((a, b) => b.score - a.score || a.p.order - b.p.order)
    return { words, found: found.slice(0, most).map(f => f.p) }
  }

  // marked appends a text to an element, with its words marked.
  const marked = (element, text, words) => {
    const pattern = new RegExp(`(${words.map(w => w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})`, 'giu')
    text.split(pattern).forEach((part, i) => {
      if (i % 2 === 0) return element.append(part)
      const mark = document.createElement('mark')
      mark.textContent = part
      element.append(mark)
    })
    return element
  }

  // excerpt is the part of a text around its first word.
  const excerpt = (p, words) => {
    const at = Math.max(0, Math.min(...words.map(w => p.text.indexOf(w)).filter(i => i >= 0), p.t.length) - 50)
    const from = at < p.t.length - 10 && at > 0 ? p.t.indexOf(' ', at) + 1 || at : 0
    return (from > 0 ? '… ' : '') + p.t.slice(from, from + 160)
  }

  const select = index => {
    const options = [...list.children]
    selected = options.length ? (index + options.length) % options.length : -1
    options.forEach((o, i) => o.setAttribute('aria-selected', i === selected))
    if (selected < 0) return input.removeAttribute('aria-activedescendant')
    input.setAttribute('aria-activedescendant', options[selected].id)
    options[selected].scrollIntoView({ block: 'nearest' })
  }

  const show = () => {
    const { words, found } = all ? find(input.value) : { words: [], found: [] }
    list.replaceChildren(...found.map((p, i) => {
      const option = document.createElement('a')
      option.id = `found-${i}`
      option.href = root + p.u
      option.role = 'option'
      option.tabIndex = -1
      option.lang = p.l
      const title = marked(document.createElement('strong'), p.h || p.p, words)
      const small = document.createElement('small')
      small.textContent = p.h ? p.p : ''
      option.append(title, small, marked(document.createElement('span'), excerpt(p, words), words))
      return option
    }))
    nothing.textContent = words.length && !found.length ? none : ''
    select(0)
  }

  const open = async () => {
    if (!dialog.open) dialog.showModal()
    input.select()
    await load()
    show()
  }

  document.querySelector('button.find').addEventListener('click', open)
  addEventListener('keydown', event => {
    const typing = event.target.closest('input, select, textarea')
    if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey || event.key === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      void open()
    }
  })
  input.addEventListener('input', show)
  input.addEventListener('keydown', event => {
    if (event.isComposing) return
    if (event.key === 'ArrowDown') select(selected + 1)
    else if (event.key === 'ArrowUp') select(selected - 1)
    else if (event.key === 'Enter') list.children[selected]?.click()
    else if (event.key === 'Escape') dialog.close() // at once: the field itself would only become empty
    else return
    event.preventDefault()
  })
  // A click beside the dialog, and a choice in it, close it.
  dialog.addEventListener('click', event => {
    if (event.target === dialog || event.target.closest('a')) dialog.close()
  })
}
