package endpoint

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlines is a response that counts the deadlines that are set.
type deadlines struct {
	*httptest.ResponseRecorder
	read int
}

func (d *deadlines) SetReadDeadline(time.Time) error {
	d.read++
	return nil
}

// TestRecorder checks what the recorder of a response notes, and which waits for the client it
// bounds.
func TestRecorder(t *testing.T) {
	var started []int
	w := &recorder{ResponseWriter: httptest.NewRecorder(), started: func(code int) { started = append(started, code) }}
	for _, code := range []int{http.StatusContinue, http.StatusEarlyHints, http.StatusTeapot, http.StatusOK} {
		w.WriteHeader(code)
	}
	if w.code != http.StatusTeapot || len(started) != 1 || started[0] != http.StatusTeapot {
		t.Errorf("the code is %d, started with %v", w.code, started)
	}
	for _, patient := range []bool{false, true} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		w := &recorder{ResponseWriter: d, unreadBody: true, proxied: patient, patient: patient}
		w.Write(make([]byte, unbuffered))
		w.Flush()
		if bounded := w.dog != nil; bounded == patient {
			t.Errorf("patient %t: the waits for the client are bounded: %t", patient, bounded)
		}
		if cut := d.read > 0; cut == patient {
			t.Errorf("proxied %t: the rest of the body has a deadline: %t", patient, cut)
		}
	}
}

// TestDebugLog checks the line of each request at level debug, also for requests without a user.
func TestDebugLog(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Requests.AllowedOrigins = []string{"//a$"}
	})
	for _, tc := range []struct {
		code           int
		method, bearer string
		want           string
	}{
		{200, "GET", token, "code=200"},
		{401, "GET", "wrong", `user=""`},
		{204, "OPTIONS", "", `user=""`},
	} {
		log.Reset()
		s.must(tc.code, tc.method, "/api", "", "Authorization", "Bearer "+tc.bearer, "Origin", "http://a")
		if !strings.Contains(log.String(), tc.want) {
			t.Errorf("%s, %d: logged %q, want %s", tc.method, tc.code, &log, tc.want)
		}
	}
}
