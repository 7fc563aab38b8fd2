package screen

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"
)

// style tells whether colors are used.
type style bool

func (s style) color(c ansi.BasicColor, text string) string {
	if !s {
		return text
	}
	return ansi.NewStyle().ForegroundColor(c).Styled(text)
}

func bold(text string) string  { return ansi.NewStyle().Bold().Styled(text) }
func faint(text string) string { return ansi.NewStyle().Faint().Styled(text) }

// small is the height of a terminal below which only the pane in focus is shown, and the others as
// titles in its own title.
const small = 16

// A layout gives each pane its number of lines without the title. A pane that is not shown has -1.
type layout [panes]int

// rows is the number of lines of the content of a pane: of the objects without the header.
func (l layout) rows(pane int) int {
	if pane == objectsPane {
		return max(0, l[pane]-1)
	}
	return max(0, l[pane])
}

// layout divides the lines between the status and the keys among the panes.
func (m *model) layout() layout {
	l := layout{-1, -1, -1}
	free := m.height - 2
	if m.status.Error != "" {
		free--
	}
	if m.height < small {
		l[m.focus] = max(0, free-1)
		return l
	}
	free -= panes
	l[objectsPane], l[eventsPane] = free*3/10, free*2/10
	l[logPane] = free - l[objectsPane] - l[eventsPane]
	return l
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// lines returns the lines of the screen: as many as the terminal has, and none is wider.
func (m *model) lines() []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	lines := []string{m.statusLine()}
	if m.status.Error != "" {
		lines = append(lines, m.style.color(ansi.Red, cut("error: "+m.status.Error, m.width)))
	}
	switch l := m.layout(); {
	case m.help:
		lines = append(lines, m.helpLines()...)
	default:
		for n, height := range l {
			if height >= 0 {
				lines = append(lines, m.title(n))
				lines = append(lines, fill(m.content(n, height), height)...)
			}
		}
	}
	lines = fill(lines, m.height-1)
	if m.height > 1 {
		lines = append(lines, faint(cut(m.keys(), m.width)))
	}
	return lines[:m.height]
}

// fill returns exactly so many lines.
func fill(lines []string, height int) []string {
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines[:max(0, height)]
}

// statusLine shows the project, the state of the operator and the kubeconfig.
func (m *model) statusLine() string {
	state, c := "", ansi.Yellow
	switch s := m.status; {
	case s.Step != "" && !s.Since.IsZero():
		state = s.Step + ", running since " + s.Since.Format(time.TimeOnly)
	case s.Step != "":
		state = s.Step
	case !s.Since.IsZero():
		state, c = "running since "+s.Since.Format(time.TimeOnly), ansi.Green
	case s.Ended != "":
		state, c = "ended: "+s.Ended, ansi.Red
	default:
		state = "not running"
	}
	project := cut(m.project, min(m.width, max(8, m.width/3)))
	rest := m.width - ansi.StringWidth(project)
	state = cut("  "+state, rest)
	rest -= ansi.StringWidth(state)
	return bold(project) + m.style.color(c, state) + cut("  KUBECONFIG="+m.kubeconfig, rest)
}

func (m *model) keys() string {
	switch {
	case m.interrupts > 1:
		return "ending at once"
	case m.interrupts > 0:
		return "ending; q or Ctrl-C again: at once"
	case m.help:
		return "? closes the list of keys"
	}
	return "q end  ? keys  Tab pane  f follow  ↑ ↓ PgUp PgDn scroll"
}

func (m *model) helpLines() []string {
	lines := []string{
		"Tab, Shift-Tab  next, previous pane",
		"Up, Down        scroll by a line",
		"PgUp, PgDn      scroll by a page",
		"Home, End       first line, last line",
		"f               follow the newest line",
		"q, Ctrl-C       end; again: at once",
	}
	for i := range lines {
		lines[i] = cut(lines[i], m.width)
	}
	// The path is to be copied: it is not cut.
	return append(lines, strings.Split(ansi.Hardwrap("KUBECONFIG="+m.kubeconfig, m.width, true), "\n")...)
}

// title is the line above a pane. That of the pane in focus is heavy, and shows where the window
// is.
func (m *model) title(n int) string {
	names := [panes]string{"Objects", "Events", "Log"}
	counts := [panes]int{len(m.rows), len(m.events.lines), len(m.log.lines)}
	text := fmt.Sprintf("%s %d", names[n], counts[n])
	if p := m.pane(n); p != nil && p.paused {
		_, to := p.visible(m.layout().rows(n))
		text += fmt.Sprintf(" (%d below)", p.end()-to)
	} else if p == nil {
		if below := len(m.rows) - m.top - m.layout().rows(n); m.top > 0 || below > 0 {
			text += fmt.Sprintf(" (%d above, %d below)", m.top, max(0, below))
		}
	}
	ruler := "─"
	if n == m.focus {
		ruler = "━"
	}
	text = ruler + ruler + " " + text + " "
	if m.height < small {
		for other := range panes {
			if other != n {
				text += ruler + " " + fmt.Sprintf("%s %d", names[other], counts[other]) + " "
			}
		}
	}
	text = cut(text, m.width)
	text += strings.Repeat(ruler, max(0, m.width-ansi.StringWidth(text)))
	if n == m.focus {
		return bold(text)
	}
	return faint(text)
}

// content returns at most so many lines of a pane.
func (m *model) content(n, height int) []string {
	p := m.pane(n)
	if p == nil {
		return m.objectLines(height)
	}
	var lines []string
	from, to := p.visible(height)
	for i := from; i < to; i++ {
		lines = append(lines, m.line(p.at(i)))
	}
	return lines
}

// line shows a line of a history. Lines of the operator and events are alone in their pane, and
// need no label.
func (m *model) line(l line) string {
	switch l.label {
	case "operator":
		return cut(l.text, m.width)
	case "event":
		text := cut(l.text, m.width)
		if strings.HasPrefix(l.text, "Warning: ") {
			return m.style.color(ansi.Yellow, text)
		}
		return text
	case "error":
		return m.style.color(ansi.Red, cut("error | "+l.text, m.width))
	}
	return m.style.color(ansi.Cyan, cut(l.label+" | "+l.text, m.width))
}

// objectLines returns the list of objects: a header, and the visible rows.
func (m *model) objectLines(height int) []string {
	if height <= 0 {
		return nil
	}
	table := [][4]string{{"KIND", "NAME", "STATE", "AGE"}}
	for _, r := range m.rows[m.top:min(len(m.rows), m.top+height-1)] {
		age := ""
		if !r.created.IsZero() && !m.now.IsZero() {
			age = duration.HumanDuration(max(0, m.now.Sub(r.created)))
		}
		table = append(table, [4]string{strings.Repeat("  ", r.depth) + r.kind, r.name, r.state, age})
	}
	// The name gets what the others leave, which are as wide as their texts, within bounds.
	most := m.width / 3
	if m.width < 60 {
		most = m.width / 4
	}
	widths := [4]int{0, 0, 0, 0}
	for _, texts := range table {
		for i, text := range texts {
			widths[i] = min(most, max(widths[i], ansi.StringWidth(text)))
		}
	}
	const gap = 2
	widths[1] = max(0, m.width-widths[0]-widths[2]-widths[3]-3*gap)
	var lines []string
	for i, texts := range table {
		text := ""
		for column, width := range widths {
			if column > 0 {
				text += strings.Repeat(" ", gap)
			}
			text += pad(texts[column], width)
		}
		text = strings.TrimRight(cut(text, m.width), " ")
		if i == 0 {
			text = faint(text)
		}
		lines = append(lines, text)
	}
	return lines
}
