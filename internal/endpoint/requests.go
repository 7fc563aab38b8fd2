package endpoint

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// RequestOptions configure how long requests last, and the headers of all responses. They are
// flags of kube-apiserver, named in the comments.
type RequestOptions struct {
	// Timeout limits requests that are not long-running, such as watches are (--request-timeout). A
	// write has at most 34 seconds of it. Default 60 seconds.
	Timeout time.Duration
	// MinWatch is the minimum duration of a watch whose client does not set timeoutSeconds
	// (--min-request-timeout): it ends between once and twice MinWatch, at random, so that clients
	// do not connect again all at once. Negative means that it does not end. Default 30 minutes.
	MinWatch time.Duration
	// TransportSecurity are directives of the header Strict-Transport-Security
	// (--strict-transport-security-directives): max-age=SECONDS, includeSubDomains and preload.
	// Default: there is no such header.
	TransportSecurity []string
	// AllowedOrigins are regular expressions of the origins whose web pages may read responses
	// (--cors-allowed-origins), with the credentials of the user. Each must have ^ or // for the start
	// of the host, and $ or : for its end. Default: none, so that browsers deny the responses to pages
	// of other origins.
	AllowedOrigins []string
	// GoawayChance is the part of the requests over HTTP/2 after which the server closes the
	// connection (--goaway-chance), from 0 to 0.02, so that clients spread over several servers
	// behind a load balancer. Default 0.
	GoawayChance float64
}

// The defaults of kube-apiserver.
const (
	requestTimeout = time.Minute
	minWatch       = 30 * time.Minute
)

// writeTimeout limits writes in kube-apiserver, whatever --request-timeout is.
const writeTimeout = 34 * time.Second

// forever is the duration of a watch that does not end. Twice as much does not overflow.
const forever time.Duration = math.MaxInt64 / 4

// maxGoawayChance is the largest GoawayChance that kube-apiserver accepts.
const maxGoawayChance = 0.02

// maxAge matches the directive with the lifetime of Strict-Transport-Security.
var maxAge = regexp.MustCompile(`^max-age=[0-9]+$`)

// Validate returns an error for options that are out of range.
func (o *RequestOptions) Validate() error {
	if o.Timeout < 0 {
		return fmt.Errorf("Options.Requests.Timeout is %v: it cannot be negative", o.Timeout)
	}
	if !(o.GoawayChance >= 0 && o.GoawayChance <= maxGoawayChance) { // false for NaN, too
		return fmt.Errorf("Options.Requests.GoawayChance is %v: want a number from 0 to %v", o.GoawayChance, maxGoawayChance)
	}
	for _, directive := range o.TransportSecurity {
		if directive != "includeSubDomains" && directive != "preload" && !maxAge.MatchString(directive) {
			return fmt.Errorf("Options.Requests.TransportSecurity has %q: want max-age=SECONDS, includeSubDomains or preload", directive)
		}
	}
	for _, origin := range o.AllowedOrigins {
		if _, err := regexp.Compile(origin); err != nil {
			return fmt.Errorf("Options.Requests.AllowedOrigins has %q: not a regular expression: %w", origin, err)
		}
		if !pinned(origin) {
			return fmt.Errorf("Options.Requests.AllowedOrigins has %q, which also matches origins that only contain it: mark the start of the host by ^ or //, and its end by $ or :, like //example\\.com(:|$)", origin)
		}
	}
	return nil
}

// pinned reports whether a regular expression of origins has an anchor at the start and at the end
// of the host (CVE-2022-1996), by kube-apiserver's rule.
func pinned(origin string) bool {
	start := strings.Contains(origin, "^") || strings.Contains(origin, "//")
	return start && strings.ContainsAny(origin, "$:")
}

// withDefaults fills in the defaults of valid options.
func (o RequestOptions) withDefaults() RequestOptions {
	if o.Timeout == 0 {
		o.Timeout = requestTimeout
	}
	switch {
	case o.MinWatch == 0:
		o.MinWatch = minWatch
	case o.MinWatch < 0 || o.MinWatch > forever:
		o.MinWatch = forever
	}
	return o
}

// watchTime returns the duration of a watch whose client does not set one.
func (o *RequestOptions) watchTime() time.Duration {
	return time.Duration(float64(o.MinWatch) * (1 + rand.Float64()))
}

// writeTimeout returns the limit of writes.
func (o *RequestOptions) writeTimeout() time.Duration { return min(writeTimeout, o.Timeout) }
