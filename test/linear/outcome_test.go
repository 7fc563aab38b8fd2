package linear

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

func TestOutcomeOf(t *testing.T) {
	for _, tc := range []struct {
		name    string
		status  int
		body    string
		err     error
		outcome Outcome
		proper  bool
	}{
		{"read", 200, `{}`, nil, Done, true},
		{"created", 201, `{}`, nil, Done, true},
		{"no such object", 404, `{"reason":"NotFound","details":{"name":"x"}}`, nil, NotFound, true},
		{"no such namespace", 404, `{"reason":"NotFound","details":{"name":"linear"}}`, nil, NotFound, false},
		{"no such resource", 404, `404 page not found`, nil, NotFound, false},
		{"already there", 409, `{"reason":"AlreadyExists"}`, nil, Exists, true},
		{"conflict", 409, `{"reason":"Conflict"}`, nil, Conflict, true},
		{"some other conflict", 409, `{"reason":"Odd"}`, nil, Conflict, false},
		{"history is gone", 410, `{"reason":"Expired"}`, nil, Refused, true},
		{"too many", 429, ``, nil, Refused, true},
		{"stopping", 503, `server is stopping`, nil, Refused, true},
		{"disk full", 507, `{}`, nil, Refused, true},
		{"no answer in time", 504, `{"reason":"Timeout"}`, nil, Unknown, true},
		{"a bug", 500, `{"reason":"InternalError"}`, nil, Unknown, false},
		{"invalid", 422, `{"reason":"Invalid"}`, nil, Unknown, false},
		{"broken off", 0, ``, io.ErrUnexpectedEOF, Unknown, true},
		{"no patience", 0, ``, context.DeadlineExceeded, Unknown, true},
		{"no server", 0, ``, &net.OpError{Op: "dial", Err: errors.New("connection refused")}, Refused, true},
		{"broken off later", 0, ``, &net.OpError{Op: "read", Err: errors.New("connection reset")}, Unknown, true},
		{"down", 0, ``, errDown, Refused, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := decode([]byte(tc.body))
			outcome, proper := outcomeOf("x", tc.status, &answer, tc.err)
			if outcome != tc.outcome || proper != tc.proper {
				t.Errorf("got %q, %v; want %q, %v", outcome, proper, tc.outcome, tc.proper)
			}
		})
	}
}
