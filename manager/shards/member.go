package shards

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// A member is one process of a group. All fields belong to the goroutine of run.
type member struct {
	opts   Options
	cfg    *rest.Config
	leases coordinationv1client.LeaseInterface
	work   Work

	lease   *coordinationv1.Lease // as last written; nil while this process is no member
	renewed time.Time             // when the last successful renewal was sent
	shown   []string              // the set that the Lease shows: this member works only with it
	running *running              // nil if no work runs
	seen    map[string]observation
}

// running is work that has not ended.
type running struct {
	fence   *fence
	cancel  context.CancelFunc
	ended   chan error // receives what work returns
	stopped time.Time  // when cancel was called; zero before
}

// An observation is a version of the Lease of another member, and when it was read first.
type observation struct {
	version string
	since   time.Time
}

func (m *member) run(ctx context.Context) error {
	tick := time.NewTicker(m.opts.RetryPeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		m.turn(ctx)
		var ended chan error
		if m.running != nil {
			ended = m.running.ended
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case err := <-ended:
			stopped := !m.running.stopped.IsZero()
			m.running = nil
			if !stopped {
				m.leave()
				return err
			}
			if err != nil {
				m.opts.Logger.Error(err, "The work ended with an error")
			}
		}
	}
	if m.running != nil {
		m.stop()
		if err := <-m.running.ended; err != nil {
			m.opts.Logger.Error(err, "The work ended with an error")
		}
	}
	m.leave()
	return nil
}

// turn renews the Lease, reads those of the others, and starts or stops the work.
func (m *member) turn(ctx context.Context) {
	// Requests that hang must not use up the time of the next ones.
	impatient, cancel := context.WithTimeout(ctx, m.opts.RenewDeadline/2)
	defer cancel()
	set, all, err := m.read(impatient)
	now := time.Now()
	if err != nil && ctx.Err() == nil {
		m.opts.Logger.Error(err, "Cannot renew or read the Leases", "lastRenewal", m.renewed)
	}
	switch r := m.running; {
	case r != nil && (m.lease == nil || now.Sub(m.renewed) > m.opts.RenewDeadline):
		m.stop()
	case r != nil && !r.stopped.IsZero() && now.Sub(r.stopped) > m.opts.RenewDeadline:
		m.opts.Logger.Info("The work does not end: the Lease is given up", "lease", m.lease.Name)
		m.leave()
	case err != nil || m.lease == nil:
	case !slices.Equal(set, m.shown):
		if r != nil {
			m.stop()
			return
		}
		// Each Lease is written with a set only after the work with another set has ended.
		m.shown = set
		if err := m.renew(impatient); err != nil {
			m.shown = nil
		}
	case r == nil && agreed(all, set):
		m.start(ctx, set)
	}
}

// agreed reports whether all Leases show a set.
func agreed(all []coordinationv1.Lease, set []string) bool {
	want := strings.Join(set, ",")
	return !slices.ContainsFunc(all, func(l coordinationv1.Lease) bool { return l.Annotations[MembersAnnotation] != want })
}

// start starts the work with a set.
func (m *member) start(ctx context.Context, set []string) {
	m.opts.Logger.Info("Members divide the keys", "members", set, "self", m.lease.Name)
	ctx, cancel := context.WithCancel(ctx)
	f := newFence(m.lease)
	f.allow(m.renewed.Add(m.opts.RenewDeadline))
	r := &running{fence: f, cancel: cancel, ended: make(chan error, 1)}
	owns, cfg := divide(set, m.lease.Name), f.config(m.cfg)
	go func() { r.ended <- m.work(ctx, cfg, owns) }()
	m.running = r
}

// stop lets the work end, without waiting for it.
func (m *member) stop() {
	if r := m.running; r.stopped.IsZero() {
		r.stopped = time.Now()
		r.cancel()
	}
}

// read renews the Lease, and returns the set of members, sorted, and their Leases. Where this
// process is no member, it becomes one, unless the work of the former one still runs.
func (m *member) read(ctx context.Context) ([]string, []coordinationv1.Lease, error) {
	if m.lease == nil && m.running != nil {
		return nil, nil, nil
	}
	if err := m.renew(ctx); err != nil || m.lease == nil {
		return nil, nil, err
	}
	list, err := m.leases.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{Label: m.opts.Name}).String()})
	if err != nil {
		return nil, nil, err
	}
	var set []string
	for i := range list.Items {
		set = append(set, list.Items[i].Name)
	}
	slices.Sort(set)
	if !slices.Contains(set, m.lease.Name) {
		m.lost()
		return nil, nil, nil
	}
	return set, list.Items, m.bury(ctx, list.Items)
}

// renew creates or updates the Lease. It does not return an error if others have deleted the Lease:
// then this process is no member any more.
func (m *member) renew(ctx context.Context) error {
	sent := time.Now()
	if m.lease == nil {
		m.shown = nil
		created, err := m.leases.Create(ctx, m.template(), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		m.lease, m.renewed = created, sent
		return nil
	}
	next := m.lease.DeepCopy()
	next.Spec.RenewTime = new(metav1.NewMicroTime(sent))
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, MembersAnnotation, strings.Join(m.shown, ","))
	updated, err := m.leases.Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // written by another client, or by a request whose response was lost
		var current *coordinationv1.Lease
		if current, err = m.leases.Get(ctx, next.Name, metav1.GetOptions{}); err == nil && current.UID == next.UID {
			next.ResourceVersion = current.ResourceVersion
			updated, err = m.leases.Update(ctx, next, metav1.UpdateOptions{})
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		m.lost()
		return nil
	case err != nil:
		return err
	}
	m.lease, m.renewed = updated, sent
	if m.running != nil && m.running.stopped.IsZero() {
		m.running.fence.allow(sent.Add(m.opts.RenewDeadline))
	}
	return nil
}

// template is a new Lease.
func (m *member) template() *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.opts.Namespace, Name: m.opts.Name + "-" + string(uuid.NewUUID()), Labels: map[string]string{Label: m.opts.Name}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &m.opts.Identity,
			LeaseDurationSeconds: new(int32(math.Ceil(m.opts.LeaseDuration.Seconds()))),
			AcquireTime:          &now, RenewTime: &now,
		},
	}
}

// lost is called when the Lease does not exist any more: others may have the keys.
func (m *member) lost() {
	m.opts.Logger.Info("The Lease was deleted: this member has been replaced", "lease", m.lease.Name)
	m.lease, m.shown = nil, nil
	if m.running != nil {
		m.stop()
	}
}

// bury deletes the Leases of members that have not renewed them for LeaseDuration. It requires the
// version that was read, so that a renewal wins.
func (m *member) bury(ctx context.Context, all []coordinationv1.Lease) error {
	now := time.Now()
	seen := map[string]observation{}
	for _, l := range all {
		if l.Name == m.lease.Name {
			continue
		}
		o, known := m.seen[l.Name]
		if !known || o.version != l.ResourceVersion {
			o = observation{version: l.ResourceVersion, since: now}
		}
		seen[l.Name] = o
		if now.Sub(o.since) <= m.opts.LeaseDuration {
			continue
		}
		m.opts.Logger.Info("A member has not renewed its Lease: it is deleted", "lease", l.Name)
		err := m.leases.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	m.seen = seen
	return nil
}

// leave deletes the Lease. If that fails, the others delete it when it has expired.
func (m *member) leave() {
	if m.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.opts.RetryPeriod)
	defer cancel()
	err := m.leases.Delete(ctx, m.lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.lease.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		m.opts.Logger.Error(err, "Cannot delete the Lease", "lease", m.lease.Name)
	}
	m.lease, m.shown = nil, nil
}
