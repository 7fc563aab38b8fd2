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

	"github.com/kapok-dev/kapok/cache"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// lastMoment is the minimum time that a group has to end, even if the groups before it have used up
// the timeout.
const lastMoment = time.Second

// webhooksPatience limits the time that the start waits for webhook servers. It polls them every
// webhooksPoll.
const (
	webhooksPatience = 10 * time.Second
	webhooksPoll     = 50 * time.Millisecond
)

// failure records the first error and stops the manager.
type failure struct {
	mu       sync.Mutex
	err      error
	stop     context.CancelFunc // nil before Start
	stopping bool
}

// fail records an error. The first one ends Start. Errors during the shutdown are logged, unless
// they are about the cancellation.
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
		return errors.New("manager: Start was called more than once")
	}

	// The groups are stopped in order, not by the end of ctx.
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
	stopBroadcaster, err := m.broadcast()
	if err != nil {
		return err
	}
	defer stopBroadcaster()
	m.events.start(writing)
	m.startGroups(base, running)
	<-running.Done()

	m.failed.mu.Lock()
	m.failed.stopping = true
	err = m.failed.err
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

// startGroups starts the groups in order, until running ends.
func (m *manager) startGroups(base, running context.Context) {
	m.servers.start(base)
	hooks := m.webhooks.pending()
	m.webhooks.start(base) // before caches, as their lists may need conversions
	m.waitForWebhooks(running, hooks)
	others := m.caches.pending()
	m.caches.start(base)
	if !m.waitForCaches(running, others) {
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

// waitForCaches waits until the cache and the caches that were added have synced.
func (m *manager) waitForCaches(running context.Context, added []Runnable) bool {
	for _, r := range added {
		c, ok := r.(cache.Cache)
		if has, is := r.(hasCache); is {
			c, ok = has.GetCache(), true
		}
		if ok && !c.WaitForCacheSync(running) {
			return false
		}
	}
	return m.cache.WaitForCacheSync(running)
}

// broadcast starts to write the events of the EventBroadcaster of the options. The returned
// function ends it.
func (m *manager) broadcast() (stop func(), err error) {
	b := m.opts.EventBroadcaster
	if b == nil {
		return func() {}, nil
	}
	core, err := corev1client.NewForConfigAndClient(m.cfg, m.httpClient)
	if err != nil {
		return nil, fmt.Errorf("manager: client of events: %w", err)
	}
	b.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: core.Events("")})
	return b.Shutdown, nil
}

// waitForWebhooks waits until the webhook servers are reachable. After webhooksPatience it goes on:
// other parts may work without them, or return their own errors.
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
			return started.Check((&http.Request{}).WithContext(ctx)) == nil, nil
		})
		if err != nil && running.Err() == nil {
			m.logger.Info("The webhook server is not reachable yet; starting without it")
		}
	}
}

// lead starts the Runnables of the leader, unless the manager has stopped.
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

// lastEnd returns the time by which everything must have ended if the Lease is lost: when another
// process can acquire it, or one second from now if one holds it. It is the zero time if the Lease
// is not lost.
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

// stopGroups stops the groups in reverse order, by end if that is not zero, and reports whether all
// have ended.
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

// awaited waits for ended or the end of ctx, and reports whether ended is closed.
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
