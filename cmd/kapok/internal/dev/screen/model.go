package screen

import (
	"strings"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	tea "charm.land/bubbletea/v2"
)

// The panes, in the order of the key Tab.
const (
	objectsPane = iota
	eventsPane
	logPane
	panes
)

// A model is the state of the program. The goroutine of the program alone uses it.
type model struct {
	project, kubeconfig string // clean
	style               style
	interrupt           func()

	width, height int // of the terminal; 0 until they are known
	now           time.Time
	status        dev.Status // clean
	rows          []row
	top           int // the first visible row
	events, log   *pane
	focus         int
	help          bool
	interrupts    int // keys that end
}

func newModel(project, kubeconfig string, colors bool, interrupt func()) *model {
	return &model{
		project: clean(project), kubeconfig: clean(kubeconfig), style: style(colors), interrupt: interrupt,
		events: &pane{}, log: &pane{}, focus: logPane,
	}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
		m.scroll(0)
	case news:
		m.take(message)
	case tea.KeyPressMsg:
		return m, m.press(message.String())
	}
	return m, nil
}

// take adds news.
func (m *model) take(n news) {
	m.now = n.now
	for _, l := range n.log {
		m.log.add(l)
	}
	for _, l := range n.events {
		m.events.add(l)
	}
	if n.status != nil {
		m.status = *n.status
		m.status.Error, m.status.Ended = clean(withoutPackages(m.status.Error)), clean(m.status.Ended)
	}
	if n.objects {
		m.rows = n.rows
		m.top = max(0, min(m.top, len(m.rows)-m.layout().rows(objectsPane)))
	}
}

// withoutPackages removes the lines of an error with the package that go build compiles, as one
// line has to do.
func withoutPackages(text string) string {
	var all strings.Builder
	for l := range strings.Lines(text) {
		if !strings.HasPrefix(l, "# ") {
			all.WriteString(l)
		}
	}
	return all.String()
}

// press handles a key.
func (m *model) press(key string) tea.Cmd {
	page := max(1, m.layout().rows(m.focus)-1)
	const all = 1 << 30
	switch key {
	case "q", "ctrl+c":
		m.help = false
		if m.interrupts++; m.interrupts > 2 {
			return tea.Quit // then the terminal sends signals for Ctrl-C
		}
		interrupt := m.interrupt
		return func() tea.Msg {
			interrupt()
			return nil
		}
	case "ctrl+z":
		return tea.Suspend
	case "ctrl+l":
		return tea.ClearScreen
	case "?":
		m.help = !m.help
	case "esc":
		m.help = false
	case "tab":
		m.focus = (m.focus + 1) % panes
	case "shift+tab":
		m.focus = (m.focus + panes - 1) % panes
	case "up", "k":
		m.scroll(-1)
	case "down", "j":
		m.scroll(1)
	case "pgup":
		m.scroll(-page)
	case "pgdown":
		m.scroll(page)
	case "home":
		m.scroll(-all)
	case "end", "f":
		m.scroll(all)
		if p := m.pane(m.focus); p != nil {
			p.follow()
		}
	}
	return nil
}

// pane returns a pane with a history, or nil.
func (m *model) pane(n int) *pane {
	switch n {
	case eventsPane:
		return m.events
	case logPane:
		return m.log
	}
	return nil
}

// scroll moves the pane in focus down by so many lines, or up if negative.
func (m *model) scroll(by int) {
	height := m.layout().rows(m.focus)
	if p := m.pane(m.focus); p != nil {
		p.scroll(by, height)
		return
	}
	m.top = max(0, min(m.top+by, len(m.rows)-height))
}
