// Package remote authenticates bearer tokens by the webhook of kube-apiserver's
// --authentication-token-webhook-config-file, which gets TokenReviews.
//
// A [Reviewer] keeps connections, and starts no goroutines except those of net/http, which end with
// Close. It sends a request for each token; authn.Remember caches results.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A Reviewer calls a webhook. It implements authn.TokenAuthenticator.
type Reviewer struct {
	version   string // of TokenReview
	url       string
	client    *http.Client
	transport *http.Transport
}

// Kubernetes' defaults.
const (
	timeout    = 30 * time.Second // of one request
	attempts   = 5
	firstPause = 500 * time.Millisecond
	growth     = 1.5
	jitter     = 0.2
)

// most is the maximum size of a response, in bytes.
const most = 3 << 20

// Open returns a Reviewer for the webhook in the options, which must have a ConfigFile.
func Open(o Options) (*Reviewer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.ConfigFile}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	r := &Reviewer{version: o.version(), url: config.Host, transport: http.DefaultTransport.(*http.Transport).Clone()}
	r.transport.TLSClientConfig, r.transport.MaxIdleConnsPerHost = secure, 4
	if config.Proxy != nil {
		r.transport.Proxy = config.Proxy
	}
	with, err := rest.HTTPWrappersForConfig(config, r.transport) // further credentials in the kubeconfig
	if err != nil {
		return nil, err
	}
	r.client = &http.Client{Transport: with, Timeout: timeout}
	return r, nil
}

// Close closes idle connections. It is called after the last review.
func (r *Reviewer) Close() { r.transport.CloseIdleConnections() }

// AuthenticateToken implements authn.TokenAuthenticator.
func (r *Reviewer) AuthenticateToken(ctx context.Context, token string, wanted []string) (*authn.User, []string, error) {
	status, err := r.review(ctx, token, wanted)
	if err != nil {
		return nil, nil, fmt.Errorf("webhook of tokens: %w", err)
	}
	audiences := wanted
	if len(wanted) > 0 {
		// A webhook that returns no audiences does not support them: its tokens are valid for the
		// API server only.
		audiences = nil
		for _, a := range wanted {
			if slices.Contains(status.Audiences, a) {
				audiences = append(audiences, a)
			}
		}
		if len(audiences) == 0 {
			return nil, nil, nil
		}
	}
	switch {
	case status.Authenticated:
		return userOf(&status.User), audiences, nil
	case status.Error != "":
		return nil, nil, errors.New(status.Error)
	}
	return nil, nil, nil
}

func userOf(u *authenticationv1.UserInfo) *authn.User {
	found := &authn.User{Name: u.Username, UID: u.UID, Groups: authn.WithAuthenticated(u.Groups)}
	if u.Extra != nil {
		found.Extra = map[string][]string{}
		for key, values := range u.Extra {
			found.Extra[key] = values
		}
	}
	return found
}

// review sends requests until there is a response, or an error that is not temporary.
func (r *Reviewer) review(ctx context.Context, token string, wanted []string) (*authenticationv1.TokenReviewStatus, error) {
	// The fields of v1beta1 are the same.
	body, err := json.Marshal(&authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.GroupName + "/" + r.version, Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token, Audiences: wanted},
	})
	if err != nil {
		return nil, err
	}
	pause := firstPause
	for n := 1; ; n++ {
		status, again, err := r.ask(ctx, body)
		if err == nil || !again || n == attempts || ctx.Err() != nil {
			return status, err
		}
		timer := time.NewTimer(time.Duration(float64(pause) * (1 + jitter*rand.Float64())))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
		pause = time.Duration(float64(pause) * growth)
	}
}

// ask sends one request. again reports whether an error may be temporary.
func (r *Reviewer) ask(ctx context.Context, body []byte) (_ *authenticationv1.TokenReviewStatus, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err), err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return nil, false, err
	}
	if code := response.StatusCode; code < 200 || code > 299 {
		_, after := strconv.Atoi(response.Header.Get("Retry-After"))
		again = code == http.StatusInternalServerError || code == http.StatusGatewayTimeout || code == http.StatusTooManyRequests || after == nil
		return nil, again, fmt.Errorf("the webhook responds with %s", response.Status)
	}
	var review authenticationv1.TokenReview
	if err := json.Unmarshal(data, &review); err != nil {
		return nil, false, err
	}
	if want := authenticationv1.GroupName + "/" + r.version; review.APIVersion != want || review.Kind != "TokenReview" {
		return nil, false, fmt.Errorf("the webhook responds with a %q of %q, want a TokenReview of %s", review.Kind, review.APIVersion, want)
	}
	return &review.Status, false, nil
}
