package tokenfile_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authn/tokenfile"

	"github.com/google/go-cmp/cmp"
)

func TestLoad(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		token      string // default t
		want       *authn.User
		warning    string
		err        string
	}{
		{name: "user", file: "t,alice,1\n", want: &authn.User{Name: "alice", UID: "1", Groups: []string{"system:authenticated"}}},
		{name: "groups", file: "t,alice,1,\"dev,ops\"\n", want: &authn.User{Name: "alice", UID: "1", Groups: []string{"dev", "ops", "system:authenticated"}}},
		{name: "one group", file: "t,alice,1,dev", want: &authn.User{Name: "alice", UID: "1", Groups: []string{"dev", "system:authenticated"}}},
		{name: "another's token", file: "u,alice,1\n"},
		{name: "beginning of a token", file: "tt,alice,1\n"},
		{name: "empty file", file: ""},
		{name: "no token", file: ",alice,1\nt,bob,2\n", want: &authn.User{Name: "bob", UID: "2", Groups: []string{"system:authenticated"}}, warning: "record 1 has no token"},
		{name: "twice", file: "t,alice,1\nt,bob,2\n", want: &authn.User{Name: "bob", UID: "2", Groups: []string{"system:authenticated"}}, warning: "record 2 has the token of one before"},
		{name: "too few", file: "x,y,z\nt,alice\n", err: "line 2: must have at least 3 columns (token, user name, user uid), found 2"},
		{name: "quotes", file: "t,\"alice,1\n", err: `extraneous or missing " in quoted-field`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := &tokenfile.Table{}
			warnings, err := table.Load([]byte(tc.file))
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("got %v, want %q", err, tc.err)
			}
			if got := strings.Join(warnings, "\n"); !strings.Contains(got, tc.warning) || tc.warning == "" && got != "" {
				t.Errorf("warnings %q, want %q", got, tc.warning)
			}
			u, audiences, err := table.AuthenticateToken(t.Context(), "t", []string{"a"})
			if diff := cmp.Diff(tc.want, u); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			if u != nil && !cmp.Equal(audiences, []string{"a"}) {
				t.Errorf("valid for audiences %v", audiences)
			}
		})
	}
}

// TestReload checks that another file replaces the table, and that an invalid one does not.
func TestReload(t *testing.T) {
	table := &tokenfile.Table{}
	name := func() string {
		u, _, err := table.AuthenticateToken(t.Context(), "t", nil)
		if u == nil || err != nil {
			return ""
		}
		return u.Name
	}
	for _, step := range []struct{ file, want string }{{"t,a,1", "a"}, {"t,b,1", "b"}, {"t", "b"}, {"u,c,1", ""}} {
		_, _ = table.Load([]byte(step.file))
		if got := name(); got != step.want {
			t.Errorf("after %q the user is %q, want %q", step.file, got, step.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, file := range []string{"t,a,1\n", "t,a,1,\"x,y\"", "\"t\"\"\",,", "t,a\n", ",,,"} {
		f.Add([]byte(file), "t")
	}
	f.Fuzz(func(t *testing.T, file []byte, token string) {
		table := &tokenfile.Table{}
		_, err := table.Load(file)
		u, _, authErr := table.AuthenticateToken(t.Context(), token, nil)
		if authErr != nil || u != nil && (err != nil || token == "" || !strings.Contains(strings.ReplaceAll(string(file), `""`, `"`), strings.ReplaceAll(token, "\r\n", "\n"))) {
			// Except for CSV quoting, the token is in the file.
			if !strings.ContainsAny(token, "\"\r\n") {
				t.Errorf("%q authenticates %v with file %q, %v", token, u, file, authErr)
			}
		}
	})
}
