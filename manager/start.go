package manager

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// lastMoment is how long each may take to end for which others have left no time.
const lastMoment = time.Second

// webhooksPatience is how long the start waits for webhook servers; it asks them every webhooksPoll.
const (
	webhooksPatience = 10 * time.Second
	webhooksPoll     = 50 * time.Millisecond
)

// failure is the first thing that went wrong. It ends what runs.
type failure struct {
	mu       sync.Mutex
	err      error
	stop     context.CancelFunc // nil before Start
	stopping bool
}

// fail is told what goes wrong. The first error ends Start; those that come while everything ends are logged, unless they say that it does.
func (m *manager) fail(err error) {
	f := &m.failed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && !f.stopping {
		f.err = err
		f.stop()
	} else if !errors.Is(err, context.Canceled) {
		m.logger.Error(err, "Error while the manager stops")
	}
}

func (m *manager) Start(ctx context.Context) error {
	m.mu.Lock()
	started := m.started
	m.started = true
	m.mu.Unlock()
	if started {
		return errors.New("manager: it has been started already")
	}

	// What runs is told to stop in order, and not by the end of ctx.
	base := context.WithoutCancel(ctx)
	if m.opts.BaseContext != nil {
		base = context.WithoutCancel(m.opts.BaseContext())
	}
	base = logr.NewContext(base, m.logger)
	running, stop := context.WithCancel(ctx)
	defer stop()
	m.failed.stop = stop

	writing, cancel := context.WithCancel(base)
	defer cancel()
	m.events.start(writing)
	m.startGroups(base, running)
	<-running.Done()

	m.failed.mu.Lock()
	m.failed.stopping = true
	err := m.failed.err
	m.failed.mu.Unlock()

	end := m.lastEnd()
	ended, stopErr := m.stopGroups(base, end)
	if m.election != nil {
		m.election.stop(ended)
		m.setLeader(0)
	}
	m.events.stop(cancel, end)
	utilnet.CloseIdleConnectionsFor(m.httpClient.Transport)
	return errors.Join(err, stopErr)
}

// startGroups starts everything in order, as far as it gets before running ends.
func (m *manager) startGroups(base, running context.Context) {
	m.servers.start(base)
	hooks := m.webhooks.pending()
	m.webhooks.start(base) // before caches, as their lists may need conversions
	m.waitForWebhooks(running, hooks)
	m.caches.start(base)
	if !m.cache.WaitForCacheSync(running) {
		if running.Err() == nil {
			m.fail(errors.New("failed to wait for caches to sync"))
		}
		return
	}
	m.others.start(base)
	m.warmups.start(base)
	if m.election == nil {
		m.lead(base)
		return
	}
	m.election.start(base, func() { m.lead(base) }, func() { m.fail(ErrLeaderElectionLost) })
}

// waitForWebhooks waits until webhook servers serve. If one does not in time, the rest may work without, or says what it lacks.
func (m *manager) waitForWebhooks(running context.Context, hooks []Runnable) {
	ctx, cancel := context.WithTimeout(running, webhooksPatience)
	defer cancel()
	for _, r := range hooks {
		hook, ok := r.(WebhookServer)
		if !ok {
			continue
		}
		started := Checker(hook.StartedChecker())
		err := wait.PollUntilContextCancel(ctx, webhooksPoll, true, func(ctx context.Context) (bool, error) {
			return started.call((&http.Request{}).WithContext(ctx)) == nil, nil
		})
		if err != nil && running.Err() == nil {
			m.logger.Info("The webhook server is not reachable yet; going on without")
		}
	}
}

// lead starts what only the leader runs, unless the manager has stopped meanwhile.
func (m *manager) lead(ctx context.Context) {
	if !m.leaders.start(ctx) {
		return
	}
	if m.election != nil {
		m.setLeader(1)
	}
	close(m.elected)
}

func (m *manager) setLeader(status float64) {
	m.metrics.leader.WithLabelValues(m.opts.LeaderElectionID).Set(status)
}

// lastEnd is when everything must have ended if the lease is lost: when another may take it, or soon, if that has happened. It is
// the zero time if the lease is not lost.
func (m *manager) lastEnd() time.Time {
	if m.election == nil {
		return time.Time{}
	}
	until, lost := m.election.lostUntil()
	if soon := time.Now().Add(lastMoment); lost && until.Before(soon) {
		until = soon
	}
	return until
}

// stopGroups stops everything in reverse order, before end if that is not zero, and says whether all has ended.
func (m *manager) stopGroups(base context.Context, end time.Time) (ended bool, err error) {
	grace := *m.opts.GracefulShutdownTimeout
	if left := time.Until(end); !end.IsZero() && (grace < 0 || left < grace) {
		grace = left
	}
	deadline := time.Now().Add(grace)
	ended = true
	var late []string
	for _, stage := range [][]*group{{&m.leaders, &m.warmups}, {&m.others}, {&m.caches}, {&m.webhooks}, {&m.servers}} {
		ends := make([]<-chan struct{}, len(stage))
		for i, g := range stage {
			ends[i] = g.stop()
		}
		var left time.Duration
		switch {
		case grace < 0:
			left = math.MaxInt64
		case grace > 0:
			left = max(time.Until(deadline), lastMoment)
		}
		patient, cancel := context.WithTimeout(base, left)
		for i, g := range stage {
			if !awaited(patient, ends[i]) {
				ended = false
				late = append(late, g.name)
			}
		}
		cancel()
	}
	if len(late) > 0 && grace > 0 {
		err = fmt.Errorf("%s have not ended within the grace period of %v", strings.Join(late, ", "), grace)
	}
	return ended, err
}

// awaited says whether something has ended before, or at, the end of a context.
func awaited(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return true
	default:
		return false
	}
}
