package cache

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// do sends a request for the resource. An error response is an error of apierrors.
func (r *reflector) do(ctx context.Context, query url.Values, media string) (*http.Response, error) {
	u, err := r.url()
	if err != nil {
		return nil, err
	}
	query = maps.Clone(query)
	maps.Copy(query, r.selector)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", media)
	req.Header.Set("User-Agent", cmp.Or(r.agent, rest.DefaultKubernetesUserAgent()))
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, responseError(resp)
	}
	return resp, nil
}

// responseError returns the Status in a response, or one made of its code.
func responseError(resp *http.Response) error {
	const enough = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, enough))
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	if status, ok := (encoded{bytes: body}).status(); ok {
		if seconds > 0 {
			if status.Details == nil {
				status.Details = &metav1.StatusDetails{}
			}
			status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, int32(min(seconds, 1<<20)))
		}
		return apierrors.FromObject(status)
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodGet, schema.GroupResource{}, "",
		strings.TrimSpace(string(body[:min(len(body), 1024)])), seconds, true)
}

// status decodes a metav1.Status.
func (o encoded) status() (*metav1.Status, bool) {
	if strings.HasPrefix(view(o.bytes), envelopeMagic) {
		o, _ = openEnvelope(o.bytes)
	}
	s := &metav1.Status{}
	if o.protobuf {
		return s, o.isStatus && s.Unmarshal(o.bytes) == nil
	}
	return s, json.Unmarshal(o.bytes, s) == nil && s.Kind == "Status"
}

// statusError is the error in an event of type ERROR.
func (o encoded) statusError() error {
	if s, ok := o.status(); ok {
		return apierrors.FromObject(s)
	}
	return fmt.Errorf("an ERROR event without a Status: %.200q", o.bytes)
}

// bookmark reads an event of type BOOKMARK. end says that it ends a streaming list.
func (o encoded) bookmark() (revision string, end bool, err error) {
	m := metav1.PartialObjectMetadata{}
	if o.protobuf {
		err = m.Unmarshal(o.bytes)
	} else {
		err = json.Unmarshal(o.bytes, &m)
	}
	if err == nil && m.ResourceVersion == "" {
		err = fmt.Errorf("a bookmark without resourceVersion")
	}
	return m.ResourceVersion, m.Annotations[metav1.InitialEventsAnnotationKey] == "true", err
}

// A stream is an open watch.
type stream struct {
	frameReader
	body   io.ReadCloser
	cancel context.CancelFunc
}

// open begins a watch, and limits its duration if the server does not.
func (r *reflector) open(ctx context.Context, query url.Values) (*stream, error) {
	lasts := minWatch + rand.N(minWatch)
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int(lasts.Seconds())))
	ctx, cancel := context.WithTimeout(ctx, lasts+graceTime)
	resp, err := r.do(ctx, query, r.media)
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{body: resp.Body, cancel: cancel}, nil
}

func (s *stream) next() (frame, error) {
	if s.frameReader == nil {
		frames, err := newFrameReader(s.body)
		if err != nil {
			return frame{}, err
		}
		s.frameReader = frames
	}
	return s.frameReader.next()
}

// close can be called more than once, and while another goroutine reads.
func (s *stream) close() {
	s.cancel()
	_ = s.body.Close()
}
