package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/doctor"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/snapshot"
	"github.com/kapok-dev/kapok/internal/state"
)

func TestAdminPaths(t *testing.T) {
	s := newServer(t)
	for _, test := range []struct {
		method, path, token string
		code                int
		want                string
	}{
		{"GET", pathSnapshot, token, 200, "kapok snapshot v1\n"},
		{"GET", pathDoctor, token, 200, `"problems": []`},
		{"GET", pathSnapshot, "", 403, `User \"system:anonymous\" cannot get path \"/kapok/v1/snapshot\"`},
		{"GET", pathDoctor, "", 403, `cannot get path \"/kapok/v1/doctor\"`},
		{"GET", pathSnapshot, "wrong", 401, "Unauthorized"},
		{"POST", pathSnapshot, token, 405, "MethodNotAllowed"},
		{"HEAD", pathDoctor, token, 405, "MethodNotAllowed"},
		{"GET", "/kapok/", token, 404, "404 page not found"},
		{"GET", "/kapok/v2/snapshot", token, 404, "404 page not found"},
		{"GET", pathSnapshot + "/", token, 404, "404 page not found"},
		{"GET", pathSnapshot + "?timeout=soon", token, 400, "invalid timeout"},
	} {
		authorization := ""
		if test.token != "" {
			authorization = "Bearer " + test.token
		}
		if got := s.must(test.code, test.method, test.path, "", "Authorization", authorization); !strings.Contains(got, test.want) {
			t.Errorf("%s %s: %s, want %s", test.method, test.path, got, test.want)
		}
	}
}

func TestSnapshot(t *testing.T) {
	s := newServer(t)
	for i := range 20 {
		s.must(201, "POST", configMapPath, configMap(fmt.Sprint("c", i), ""))
		s.must(201, "POST", widgetPath, widget(fmt.Sprint("w", i), ""))
	}
	s.must(200, "DELETE", widgetPath+"/w7", "")
	w := s.do("GET", pathSnapshot, "")
	if got := w.Header().Get("Content-Type"); got != contentTypeSnapshot {
		t.Errorf("content type %s", got)
	}
	r, err := snapshot.Open(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	st := s.store.State()
	if h := r.Header(); h.Revision != st.Revision() || h.Kubernetes != "v1.37.0+kapok" || h.Time.IsZero() || h.Salvaged {
		t.Errorf("%+v", h)
	}
	if got, want := w.Header().Get("Content-Disposition"), fmt.Sprintf(`attachment; filename="kapok-%d.snapshot"`, st.Revision()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	n := map[string]int{}
	for o, err := range r.Objects() {
		if err != nil {
			t.Fatal(err)
		}
		if have, _ := st.Get(o.Key); have == nil || have.Revision != o.Revision || !bytes.Equal(have.Raw, o.Raw) {
			t.Errorf("%s differs", o.Key)
		}
		n[o.Key.Resource.String()]++
	}
	if n["namespaces"] != 1 || n["configmaps"] != 20 || n["widgets.example.com"] != 19 || len(n) != 3 {
		t.Errorf("%v", n)
	}
}

// narrow is a connection that breaks after a number of bytes.
type narrow struct {
	*httptest.ResponseRecorder
	room int
}

func (w *narrow) Write(p []byte) (int, error) {
	if len(p) > w.room {
		return 0, errors.New("broken pipe")
	}
	w.room -= len(p)
	return w.ResponseRecorder.Write(p)
}

// A snapshot that cannot be sent completely does not end like a complete one.
func TestSnapshotBreaksOff(t *testing.T) {
	s := newServer(t)
	for i := range 50 {
		s.must(201, "POST", configMapPath, configMap(fmt.Sprint("c", i), ""))
	}
	whole := s.do("GET", pathSnapshot, "").Body.Len()
	for room := range whole {
		w := &narrow{httptest.NewRecorder(), room}
		r := httptest.NewRequest("GET", pathSnapshot, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		// The timestamp makes one snapshot a byte or two shorter than another.
		complete := func() (complete bool) {
			defer func() {
				if reason := recover(); reason != nil && reason != http.ErrAbortHandler {
					t.Fatalf("with room for %d of %d bytes: %v", room, whole, reason)
				}
			}()
			s.ServeHTTP(w, r)
			return true
		}()
		if _, err := snapshot.Open(bytes.NewReader(w.Body.Bytes())); complete != (err == nil) || complete && room < whole-20 {
			t.Errorf("with room for %d of %d bytes: complete %t, error %v", room, whole, complete, err)
		}
	}
}

func TestDoctor(t *testing.T) {
	s := newServer(t)
	s.must(201, "POST", configMapPath, configMap("a", ""))
	examine := func() (report doctor.Report) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.must(200, "GET", pathDoctor, "")), &report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	if r := examine(); !r.Healthy() || r.Objects != 2 || r.Revision != s.store.State().Revision() {
		t.Errorf("%+v", r)
	}
	o, _ := s.store.State().Get(configMaps().Key("default", "a"))
	o.Meta.Owners = []object.Owner{{UID: "nobody"}}
	if r := examine(); len(r.Problems) != 2 || r.Problems[0].Object != "configmaps/default/a" {
		t.Errorf("%+v", r)
	}
}

// ailing is a journal that rejects writes.
type ailing struct {
	journal.Journal
	err error
}

func (a *ailing) Sync(context.Context) (bool, error) { return false, a.err }
func (a *ailing) Health() error                      { return a.err }

func (a *ailing) Check(ctx context.Context) (journal.Report, error) {
	if errors.Is(a.err, journal.ErrUnavailable) {
		return a.Journal.Check(ctx)
	}
	return journal.Report{}, a.err
}

// A backup is served while the disk fails: that is when it is needed.
func TestAdminOfAilingJournal(t *testing.T) {
	j := &ailing{Journal: memory.New()}
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, func(o *Options) { o.Store = resource.NewStore(st, o.Store.Registry()) })
	j.err = fmt.Errorf("%w: input/output error", journal.ErrUnavailable)
	w := s.do("GET", pathSnapshot, "")
	want := `299 - "the newest writes may be missing: journal does not accept writes: input/output error"`
	if got := w.Header().Get("Warning"); got != want || w.Code != 200 {
		t.Errorf("%d with warning %s, want %s", w.Code, got, want)
	}
	if _, err := snapshot.Open(bytes.NewReader(w.Body.Bytes())); err != nil {
		t.Error(err)
	}
	if got := s.must(200, "GET", pathDoctor, ""); !strings.Contains(got, `"text": "journal does not accept writes: input/output error"`) {
		t.Errorf("doctor: %s", got)
	}
	j.err = journal.ErrClosed
	s.must(503, "GET", pathSnapshot, "")
	s.must(503, "GET", pathDoctor, "")
	j.err = errors.New("bad sector")
	if got := s.must(500, "GET", pathDoctor, ""); !strings.Contains(got, "bad sector") {
		t.Errorf("doctor: %s", got)
	}
}

// TestDoctorReportsProblems checks that problems outside the store are in the same report.
func TestDoctorReportsProblems(t *testing.T) {
	s := newServer(t, func(o *Options) { o.Ailments = func() []string { return []string{"pki/token: it is empty"} } })
	if got := s.must(200, "GET", pathDoctor, ""); !strings.Contains(got, `"text": "pki/token: it is empty"`) {
		t.Errorf("doctor: %s", got)
	}
}
