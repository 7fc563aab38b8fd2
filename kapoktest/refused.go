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

// Refused returns the requests that the server has refused to who sent them: it did not know him (401), or he may not (403), also because
// a webhook or a policy says so.
func (e *Env) Refused() []Request {
	return slices.DeleteFunc(e.Requests(), func(r Request) bool { return r.Refusal == "" })
}

// mostRefusals is how many lines of refusals a failure shows.
const mostRefusals = 10

// refusals is a text about what the server has refused; "" for nothing.
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
	text := "the server has refused:\n"
	for n, s := range said {
		if n == mostRefusals {
			return text + fmt.Sprintf("  and %d more: see Env.Refused\n", len(said)-n)
		}
		text += fmt.Sprintf("  %d x %s\n", times[s], s)
	}
	return text
}

// refusalOf is why a request was refused; "" if it was not. The answer can be read again.
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

// failing is the end of what was read, which was the end or an error.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}
