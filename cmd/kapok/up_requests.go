package main

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// requestFlags adds the flags for the duration of requests and for headers of responses. Their
// names are kube-apiserver's.
func requestFlags(f *pflag.FlagSet, o *kapok.RequestOptions) {
	o.Timeout, o.MinWatch = time.Minute, 30*time.Minute
	f.Var((*timeout)(&o.Timeout), "request-timeout", "time after which a request that is not long-running is aborted; a write at the latest after 34s")
	f.Var((*seconds)(&o.MinWatch), "min-request-timeout", "minimum duration in seconds of a watch whose client does not set one; it ends between this and twice as much. 0: it does not end")
	f.StringSliceVar(&o.TransportSecurity, "strict-transport-security-directives", nil, "directives of the header Strict-Transport-Security: max-age=SECONDS, includeSubDomains, preload (default: no header)")
	f.StringSliceVar(&o.AllowedOrigins, "cors-allowed-origins", nil, `regular expressions of origins whose web pages may use the API in browsers, like //example\.com(:|$). Each needs ^ or // for the start of the host, and $ or : for its end`)
	f.Float64Var(&o.GoawayChance, "goaway-chance", 0, "part of the HTTP/2 requests after which the connection is closed, from 0 to 0.02, so that clients spread over several servers behind a load balancer")
}

// eventFlag adds the flag for the lifetime of events, named as kube-apiserver's.
func eventFlag(f *pflag.FlagSet, to *time.Duration) {
	*to = time.Hour
	f.Var((*lifetime)(to), "event-ttl", "time after its last write at which an event is deleted; 0: never")
}

// shutdownFlags adds the flags for a shutdown, named as kube-apiserver's.
func shutdownFlags(f *pflag.FlagSet, o *kapok.Options) {
	f.BoolVar(&o.ShutdownRetryAfter, "shutdown-send-retry-after", false, "while a server that is to stop completes requests, accept connections and reject new requests with 429 and Retry-After, instead of refusing connections")
	f.DurationVar(&o.ShutdownWatchGrace, "shutdown-watch-termination-grace-period", 0, "time over which a server that is to stop ends watches one after another, at least 200 in a second; 0: all at once")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", 0, "time for which a server that is to stop serves requests as before, while /readyz fails, so that load balancers stop sending requests")
}

// timeout is a flag for a duration that is positive.
type timeout time.Duration

func (t *timeout) Type() string   { return "duration" }
func (t *timeout) String() string { return time.Duration(*t).String() }

func (t *timeout) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errNotPositive
	}
	if err == nil {
		*t = timeout(d)
	}
	return err
}

// seconds is a flag for a duration in seconds. The option is negative where the flag is 0.
type seconds time.Duration

func (s *seconds) Type() string { return "int" }
func (s *seconds) String() string {
	return strconv.Itoa(max(0, int(time.Duration(*s)/time.Second)))
}

func (s *seconds) Set(text string) error {
	n, err := strconv.ParseInt(text, 0, 64)
	switch {
	case err != nil:
		return err
	case n < 0:
		return errNegative
	case n > math.MaxInt64/int64(time.Second):
		return strconv.ErrRange
	case n == 0:
		*s = -1
	default:
		*s = seconds(n) * seconds(time.Second)
	}
	return nil
}

// lifetime is a flag for a duration. The option is negative where the flag is 0.
type lifetime time.Duration

func (l *lifetime) Type() string   { return "duration" }
func (l *lifetime) String() string { return max(0, time.Duration(*l)).String() }

func (l *lifetime) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return err
	case d < 0:
		return errNegative
	case d == 0:
		d = -1
	}
	*l = lifetime(d)
	return nil
}

// Errors of flags whose values are out of range.
var (
	errNegative    = errors.New("must not be negative")
	errNotPositive = errors.New("must be positive")
)
