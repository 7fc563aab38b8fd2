package screen

// limit is the number of lines that a history keeps.
const limit = 5000

// A line has a label of where it is from, and clean text.
type line struct{ label, text string }

// A history keeps the newest lines. Lines are numbered from 0 in the order of their arrival.
type history struct {
	lines []line // a ring once it is full: line n is at n modulo limit
	first int    // the number of the oldest line
}

func (h *history) add(l line) {
	if len(h.lines) < limit {
		h.lines = append(h.lines, l)
		return
	}
	h.lines[h.first%limit] = l
	h.first++
}

func (h *history) at(n int) line { return h.lines[n%limit] }

// end is the number of the next line.
func (h *history) end() int { return h.first + len(h.lines) }

// A pane is a window on a history. It follows the newest line until the user scrolls up.
type pane struct {
	history
	paused bool
	top    int // the number of the first visible line while paused
}

// visible returns the numbers of the visible lines: from, and up to but without to.
func (p *pane) visible(height int) (from, to int) {
	from = max(p.first, p.end()-height)
	if p.paused {
		from = min(from, max(p.first, p.top))
	}
	return from, min(p.end(), from+max(0, height))
}

// scroll moves the window down by so many lines, or up if negative.
func (p *pane) scroll(by, height int) {
	from, _ := p.visible(height)
	if by < 0 && p.end()-height > p.first {
		p.paused = true
	}
	p.top = min(max(p.first, from+by), max(p.first, p.end()-height))
}

// follow moves the window to the newest line, and keeps it there.
func (p *pane) follow() { p.paused = false }
