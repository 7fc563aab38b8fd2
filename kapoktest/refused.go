package kapoktest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// Refused returns the requests that the server has rejected: unauthenticated ones (401) and
// forbidden ones (403), including those denied by a webhook or a policy.
func (e *Env) Refused() []Request {
	return slices.DeleteFunc(e.Requests(), func(r Request) bool { return r.Refusal == "" })
}

// mostRefusals is the limit of rejected requests in a failure.
const mostRefusals = 10

// refusals returns a text about rejected requests, or "".
func (e *Env) refusals() string {
	var said []string
	times := map[string]int{}
	for _, r := range e.Refused() {
		if times[r.Refusal]++; times[r.Refusal] == 1 {
			said = append(said, r.Refusal)
		}
	}
	if len(said) == 0 {
		return ""
	}
	text := "the server denied these requests:\n"
	for n, s := range said {
		if n == mostRefusals {
			return text + fmt.Sprintf("  and %d more: see Env.Refused\n", len(said)-n)
		}
		text += fmt.Sprintf("  %d x %s\n", times[s], s)
	}
	return text
}

// refusalOf returns why a request was rejected, or "". The response can be read again.
func refusalOf(answer *http.Response) string {
	if answer == nil || answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		return ""
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	if obj, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if status, ok := obj.(*metav1.Status); ok && status.Message != "" {
			return status.Message
		}
	}
	return http.StatusText(answer.StatusCode)
}

// failing is a reader that returns an error, or io.EOF.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}
