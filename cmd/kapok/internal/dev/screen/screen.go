package screen

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/dev"

	tea "charm.land/bubbletea/v2"
	"k8s.io/client-go/rest"
)

// Options configure a Screen.
type Options struct {
	// In and Out are the terminal.
	In  io.Reader
	Out io.Writer
	// Project is the directory of the project, and Kubeconfig the path of the server's kubeconfig.
	Project, Kubeconfig string
	// Interrupt is called for each key that ends kapok dev. It must not block.
	Interrupt func()
	// Environ is the environment, which has TERM and NO_COLOR.
	Environ []string
}

// A Screen is a Sink on a terminal. Before Show and after its program has ended it writes plain
// lines.
type Screen struct {
	options Options
	plain   dev.Sink
	table   *table
	wake    chan struct{}  // has a value if there is news
	wg      sync.WaitGroup // the pump and the watches
	stop    context.CancelFunc
	program *tea.Program
	ended   chan struct{} // closed when the program has ended
	watcher *watcher

	mu     sync.Mutex
	shown  bool // lines go to the program, not to plain
	status dev.Status
	news   news   // since the last message to the program
	last   []line // the newest lines of all kinds
}

// news is a message to the program with all that has changed.
type news struct {
	now         time.Time
	log, events []line
	status      *dev.Status
	objects     bool // rows replace those before
	rows        []row
}

const (
	// frame is the shortest time between two messages to the program.
	frame = 40 * time.Millisecond
	// tick is the longest, as ages change.
	tick = time.Second
	// remembered is the number of lines that are printed when the screen ends.
	remembered = 20
)

// New returns a Screen that is not shown yet.
func New(o Options) *Screen {
	return &Screen{options: o, plain: dev.Plain(o.Out), table: newTable(), wake: make(chan struct{}, 1)}
}

// Show shows the screen until Close, with the objects of a server until ctx is done. It must be
// called once.
func (s *Screen) Show(ctx context.Context, server *rest.Config) {
	m := newModel(filepath.Base(s.options.Project), s.options.Kubeconfig, !hasNoColor(s.options.Environ), s.options.Interrupt)
	s.program = tea.NewProgram(m,
		tea.WithInput(s.options.In), tea.WithOutput(s.options.Out), tea.WithEnvironment(s.options.Environ), tea.WithoutSignalHandler())
	s.ended = make(chan struct{})
	s.watcher = newWatcher(server, s.table, s.objectsChanged)
	s.mu.Lock()
	s.shown = true
	s.mu.Unlock()
	ctx, s.stop = context.WithCancel(ctx)
	done := make(chan struct{}) // of Close, as the pump outlives ctx: the operator ends after it
	stop := s.stop
	s.stop = sync.OnceFunc(func() { stop(); close(done) })
	s.wg.Go(func() { s.watcher.run(ctx) })
	s.wg.Go(func() { s.pump(done) })
	go func() {
		defer close(s.ended)
		_, err := s.program.Run()
		s.leave(err)
	}()
}

// Close ends the screen, prints the last error and the last lines on the normal screen, and returns
// when all goroutines have ended. Without Show it does nothing.
func (s *Screen) Close() {
	if s.program == nil {
		return
	}
	s.stop()
	s.wg.Wait()
	s.program.Quit()
	<-s.ended
}

// Print shows lines in the log or among the events.
func (s *Screen) Print(label string, lines []string) {
	s.mu.Lock()
	if !s.shown {
		s.mu.Unlock()
		s.plain.Print(label, lines)
		return
	}
	defer s.mu.Unlock()
	to := &s.news.log
	if label == "event" {
		to = &s.news.events
	}
	for _, text := range lines {
		l := line{label, clean(text)}
		*to, s.last = newest(append(*to, l), limit), newest(append(s.last, l), remembered)
	}
	s.awake()
}

// newest returns the newest lines.
func newest(lines []line, most int) []line {
	if len(lines) < 2*most {
		return lines
	}
	return slices.Clone(lines[len(lines)-most:])
}

// Report shows the status.
func (s *Screen) Report(status dev.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.news.status = status, &status
	s.awake()
}

// Samples shows the samples among the objects.
func (s *Screen) Samples(samples []dev.Sample) {
	s.table.setSamples(samples)
	if s.watcher != nil {
		s.watcher.setSamples(samples)
	}
	s.objectsChanged()
}

func (s *Screen) objectsChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news.objects = true
	s.awake()
}

// awake makes the pump send a message.
func (s *Screen) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// pump sends news to the program until done is closed.
func (s *Screen) pump(done <-chan struct{}) {
	frames, ticks := time.NewTicker(frame), time.NewTicker(tick)
	defer frames.Stop()
	defer ticks.Stop()
	for {
		select {
		case <-s.wake:
		case <-ticks.C:
		case <-done:
			return
		}
		s.program.Send(s.take())
		select {
		case <-frames.C:
		case <-done:
			return
		}
	}
}

// take returns the news, and begins to collect the next ones.
func (s *Screen) take() news {
	s.mu.Lock()
	n := s.news
	s.news = news{}
	s.mu.Unlock()
	if n.objects {
		n.rows = s.table.rows()
	}
	n.now = time.Now()
	return n
}

// leave prints what the normal screen shall keep, after the program has ended. From then on, lines
// are plain.
func (s *Screen) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = false
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		s.plain.Print("screen", []string{clean(err.Error())})
	}
	lines := s.last[max(0, len(s.last)-remembered):]
	if s.status.Error != "" {
		var all []line
		for text := range strings.Lines(s.status.Error) {
			all = append(all, line{"error", clean(strings.TrimRight(text, "\r\n"))})
		}
		if !slices.Contains(lines, all[0]) {
			lines = append(all, lines...)
		}
	}
	for _, l := range lines {
		s.plain.Print(l.label, []string{l.text})
	}
	s.last, s.news = nil, news{}
}

// hasNoColor reports whether the environment asks for no colors (https://no-color.org).
func hasNoColor(environ []string) bool {
	return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR=" })
}
