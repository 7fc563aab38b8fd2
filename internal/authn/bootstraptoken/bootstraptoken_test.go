package bootstraptoken

import (
	"encoding/base64"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const token = "abcdef.0123456789abcdef"

func TestAuthenticateToken(t *testing.T) {
	for _, c := range []struct {
		what   string
		token  string
		change map[string]string // of the data, "" removes
		typ    string
		groups []string // nil if the token is not accepted
	}{
		{"valid", token, nil, secretType, []string{Group, "system:authenticated"}},
		{"groups", token, map[string]string{"auth-extra-groups": "system:bootstrappers:b,system:bootstrappers:a,system:bootstrappers:b"}, secretType,
			[]string{Group, "system:bootstrappers:a", "system:bootstrappers:b", "system:authenticated"}},
		{"a group of others", token, map[string]string{"auth-extra-groups": "system:masters"}, secretType, nil},
		{"another secret", "abcdef.0123456789abcdee", nil, secretType, nil},
		{"another token", "abcdeg.0123456789abcdef", nil, secretType, nil},
		{"upper case", "ABCDEF.0123456789abcdef", nil, secretType, nil},
		{"more", token + "0", nil, secretType, nil},
		{"another type", token, nil, "Opaque", nil},
		{"another ID", token, map[string]string{"token-id": "abcdeg"}, secretType, nil},
		{"no usage", token, map[string]string{"usage-bootstrap-authentication": ""}, secretType, nil},
		{"another usage", token, map[string]string{"usage-bootstrap-authentication": "false"}, secretType, nil},
		{"expires later", token, map[string]string{"expiration": "2000-01-01T00:00:01Z"}, secretType, []string{Group, "system:authenticated"}},
		{"expired", token, map[string]string{"expiration": "2000-01-01T00:00:00Z"}, secretType, nil},
		{"an invalid time", token, map[string]string{"expiration": "soon"}, secretType, nil},
	} {
		synctest.Test(t, func(t *testing.T) { // its clock begins at the start of the year 2000
			s, err := state.Open(t.Context(), memory.New(), state.Options{})
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
			maps.Copy(values, c.change)
			data := map[string]any{}
			for key, value := range values {
				if value != "" {
					data[key] = base64.StdEncoding.EncodeToString([]byte(value))
				}
			}
			k := object.Key{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: "kube-system", Name: "bootstrap-token-abcdef"}
			o, err := object.New(k, map[string]any{"metadata": map[string]any{"name": k.Name, "namespace": k.Namespace, "uid": "u"}, "type": c.typ, "data": data}, 0, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: k, Object: o}}}); err != nil {
				t.Fatal(err)
			}
			user, _, err := Authenticator{s}.AuthenticateToken(t.Context(), c.token, nil)
			switch {
			case err != nil:
				t.Errorf("%s: %v", c.what, err)
			case (user != nil) != (c.groups != nil):
				t.Errorf("%s: user %+v, want one with the groups %v", c.what, user, c.groups)
			case user != nil && (user.Name != "system:bootstrap:abcdef" || !slices.Equal(user.Groups, c.groups)):
				t.Errorf("%s: user %+v, want system:bootstrap:abcdef with the groups %v", c.what, user, c.groups)
			}
		})
	}
}
