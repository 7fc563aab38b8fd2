package endpoint

import (
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/histogram"

	"github.com/prometheus/client_golang/prometheus"
)

// accessMetrics count and time authentication and authorization, with the names of kube-apiserver.
type accessMetrics struct {
	users             *prometheus.CounterVec
	categories        map[string]prometheus.Counter
	authentication    tally
	authorization     tally
	authenticated     outcome
	notAuthenticated  outcome
	allowed, denied   outcome
	noOpinion, failed outcome
}

// A tally counts and times attempts by their result.
type tally struct {
	attempts  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// An outcome is one result of a tally.
type outcome struct {
	attempts  prometheus.Counter
	durations prometheus.Observer
}

func newTally(attempts, durations prometheus.CounterOpts) tally {
	return tally{
		attempts: prometheus.NewCounterVec(attempts, []string{"result"}),
		durations: prometheus.NewHistogramVec(histogram.Options(durations.Name, durations.Help, prometheus.ExponentialBuckets(0.001, 2, 15)),
			[]string{"result"}),
	}
}

func (t tally) of(result string) outcome {
	return outcome{t.attempts.WithLabelValues(result), t.durations.WithLabelValues(result)}
}

func (o outcome) since(begun time.Time) {
	o.attempts.Inc()
	o.durations.Observe(time.Since(begun).Seconds())
}

func newAccessMetrics() *accessMetrics {
	m := &accessMetrics{
		users: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authenticated_user_requests",
			Help: "Counter of authenticated requests broken out by username.",
		}, []string{"username"}),
		authentication: newTally(
			prometheus.CounterOpts{Name: "authentication_attempts", Help: "Counter of authenticated attempts."},
			prometheus.CounterOpts{Name: "authentication_duration_seconds", Help: "Authentication duration in seconds broken out by result."}),
		authorization: newTally(
			prometheus.CounterOpts{Name: "authorization_attempts_total",
				Help: "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'."},
			prometheus.CounterOpts{Name: "authorization_duration_seconds", Help: "Authorization duration in seconds broken out by result."}),
	}
	m.authenticated, m.notAuthenticated = m.authentication.of("success"), m.authentication.of("error")
	m.allowed, m.denied = m.authorization.of("allowed"), m.authorization.of("denied")
	m.categories = map[string]prometheus.Counter{}
	for _, label := range append(slices.Clone(namedUsers), mailUser, otherUser) {
		m.categories[label] = m.users.WithLabelValues(label)
	}
	m.noOpinion, m.failed = m.authorization.of("no-opinion"), m.authorization.of("error")
	return m
}

func (m *accessMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.users, m.authentication.attempts, m.authentication.durations, m.authorization.attempts, m.authorization.durations}
}

// identified counts a request of a user.
func (m *accessMetrics) identified(user string, begun time.Time) {
	m.authenticated.since(begun)
	m.categories[categoryOf(user)].Inc()
}

// namedUsers are the users whose names are labels. Others have one of the labels for many users.
var namedUsers = []string{"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}

const (
	mailUser  = "email_id"
	otherUser = "other"
)

// categoryOf returns the label of a user.
func categoryOf(user string) string {
	switch {
	case slices.Contains(namedUsers, user):
		return user
	case strings.Contains(user, "@"):
		return mailUser
	}
	return otherUser
}

// decided counts a decision of the authorizer.
func (m *accessMetrics) decided(decision authz.Decision, err error, begun time.Time) {
	switch {
	case decision == authz.Allow:
		m.allowed.since(begun)
	case err != nil:
		m.failed.since(begun)
	case decision == authz.Deny:
		m.denied.since(begun)
	default:
		m.noOpinion.since(begun)
	}
}
