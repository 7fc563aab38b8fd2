package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"
)

// TestAPIServiceAppearsWithABody registers a group while the server reads the body of a request for
// it. The response comes from what served the path when the request arrived: the request is not
// forwarded to the other server without its body.
func TestAPIServiceAppearsWithABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		config := s.Config()
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		post := func(path string, body io.Reader) int {
			r, err := client.Post(config.Host+path, "application/json", body)
			if err != nil {
				t.Error(err)
				return 0
			}
			defer r.Body.Close()
			_, _ = io.Copy(io.Discard, r.Body)
			return r.StatusCode
		}
		const things = "/apis/things.example.com/v1/namespaces/default/things"
		body, in := io.Pipe()
		code := make(chan int, 1)
		go func() { code <- post(things, body) }()
		io.WriteString(in, `{"metadata":`)
		synctest.Wait() // until the server waits for the rest of the body
		const service = `{"metadata":{"name":"v1.things.example.com"},"spec":{"group":"things.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"service":{"namespace":"default","name":"none"}}}`
		if got := post("/apis/apiregistration.k8s.io/v1/apiservices", strings.NewReader(service)); got != http.StatusCreated {
			t.Fatal(got)
		}
		synctest.Wait()
		if got := post(things, strings.NewReader("{}")); got != http.StatusServiceUnavailable { // the service does not exist
			t.Fatalf("a request after the registration: %d", got)
		}
		io.WriteString(in, `{"name":"a"}}`)
		in.Close()
		if got := <-code; got != http.StatusNotFound {
			t.Errorf("a request before the registration: %d", got)
		}
	})
}
