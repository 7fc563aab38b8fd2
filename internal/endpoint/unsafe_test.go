package endpoint

import (
	"context"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authz"
)

// exceptFor permits everything but a verb.
type exceptFor string

func (e exceptFor) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.Verb == string(e) {
		return authz.NoOpinion, "not today", nil
	}
	return authz.Allow, "", nil
}

// TestUnsafeDeletion checks that the option for objects that cannot be read deletes no other ones.
func TestUnsafeDeletion(t *testing.T) {
	const unsafe = "?ignoreStoreReadErrorWithClusterBreakingPotential=true"
	forbidden := func(o *Options) { o.Authorizer = exceptFor("unsafe-delete-ignore-read-errors") }
	ignored := func(o *Options) { o.Authorizer, o.IgnoreUnsafeDelete = permitAll{}, true }
	permitted := func(o *Options) { o.Authorizer = permitAll{} }
	tests := []struct {
		name    string
		options func(*Options)
		path    string
		code    int
		text    string
		remains bool
	}{
		{"of a readable object", permitted, "/a", 409, "the object is decodable from storage", true},
		{"of no object", permitted, "/b", 404, `configmaps \"b\" not found`, true},
		{"of a collection", permitted, "", 422, "is not allowed with DELETECOLLECTION", true},
		{"without permission", forbidden, "/a", 403, `not permitted to do \"unsafe-delete-ignore-read-errors\", reason: not today`, true},
		{"in an earlier release", ignored, "/a", 200, "Success", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.options)
			s.must(201, "POST", configMapPath, configMap("a", ""))
			w := s.do("DELETE", configMapPath+tt.path+unsafe, "", "Impersonate-User", "bob")
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.text) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, tt.code, tt.text)
			}
			if w := s.do("GET", configMapPath+"/a", ""); (w.Code == 200) != tt.remains {
				t.Errorf("the object remains: %t, want %t", w.Code == 200, tt.remains)
			}
		})
	}
}
