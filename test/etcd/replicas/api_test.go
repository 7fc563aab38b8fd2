package replicas

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An api is an HTTP client of a server. It sends each request once.
type api struct {
	http *http.Client
	host string
}

func newAPI(t testing.TB, config *rest.Config) *api {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &api{client, config.Host}
}

// An answer is a response of a server.
type answer struct {
	status int
	header http.Header
	body   string
	meta
	items []meta
}

// meta has the fields of an object, or of a Status, in a response.
type meta struct {
	Kind     string
	Metadata struct {
		Name, UID, ResourceVersion, DeletionTimestamp string
	}
	Data            map[string]string
	Reason, Message string
	Code            int
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s: %s", a.status, a.Reason, a.Message)
}

// apply stands for a PATCH by server-side apply.
const apply = "APPLY"

func (a *api) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	form := "application/json"
	switch method {
	case http.MethodPatch:
		form = "application/merge-patch+json"
	case apply:
		method, form = http.MethodPatch, "application/apply-patch+yaml"
	}
	r, err := http.NewRequestWithContext(ctx, method, a.host+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", form)
	return a.http.Do(r)
}

// try sends a request and reads the response, for half a minute at most.
func (a *api) try(ctx context.Context, method, path, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	response, err := a.send(ctx, method, path, body)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{status: response.StatusCode, header: response.Header, body: string(data)}
	var list struct{ Items []meta }
	if json.Unmarshal(data, &got.meta) == nil && json.Unmarshal(data, &list) == nil {
		got.items = list.Items
	}
	return got, nil
}

// do is try, but requires a response.
func (a *api) do(t testing.TB, method, path, body string) answer {
	t.Helper()
	got, err := a.try(t.Context(), method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

// must is do, but requires a status code.
func (a *api) must(t testing.TB, status int, method, path, body string) answer {
	t.Helper()
	got := a.do(t, method, path, body)
	if got.status != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, got.status, status, got.body)
	}
	return got
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func configMap(name, value string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"value":%q}}`, name, value)
}

// An event is an event of a watch.
type event struct {
	Type   string
	Object meta
}

func (e event) String() string {
	return fmt.Sprintf("%s %s at %s: %s%s", e.Type, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion,
		e.Object.Data["value"], e.Object.Reason)
}

// A watch receives events until it breaks off.
type watch struct {
	events chan event // closed at the end
	cancel context.CancelFunc
}

// watch watches a collection from a resourceVersion.
func (a *api) watch(t testing.TB, path, resourceVersion string) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	response, err := a.send(ctx, http.MethodGet, path+"?watch=1&allowWatchBookmarks=true&resourceVersion="+resourceVersion, "")
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("watch %s: %d %s", path, response.StatusCode, body)
	}
	w := &watch{events: make(chan event, 10_000), cancel: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.events)
		defer response.Body.Close()
		for lines := bufio.NewReader(response.Body); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Errorf("watch %s: %v: %s", path, err, line)
				return
			}
			if e.Type != "BOOKMARK" {
				w.events <- e
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// next returns the next n events.
func (w *watch) next(t testing.TB, count int) (all []event) {
	t.Helper()
	patience := time.After(30 * time.Second)
	for len(all) < count {
		select {
		case e, ok := <-w.events:
			if !ok {
				t.Fatalf("the watch has ended after %d of %d events", len(all), count)
			}
			all = append(all, e)
		case <-patience:
			t.Fatalf("%d of %d events after 30 s", len(all), count)
		}
	}
	return all
}
