package certificates_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/certificates"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"
)

var _ admission.Validator = certificates.Plugin{}

func tree(t *testing.T, text string) resource.Tree {
	t.Helper()
	if text == "" {
		return nil
	}
	var obj resource.Tree
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestSigners checks the permissions to approve, sign and attest. Requests for certificates of
// system:masters are among the recorded cases of test/corpus.
func TestSigners(t *testing.T) {
	const (
		old      = `{"metadata": {"name": "a"}, "spec": {"signerName": "example.com/x"}, "status": {}}`
		failed   = `{"metadata": {"name": "a"}, "spec": {"signerName": "example.com/x"}, "status": {"conditions": [{"type": "Failed"}]}}`
		answered = `{"metadata": {"name": "a"}, "spec": {"signerName": "example.com/x"}, "status": {"certificate": "YQ=="}}`
		forged   = `{"metadata": {"name": "a"}, "spec": {"signerName": "example.org/mine"}, "status": {"conditions": [{"type": "Approved"}]}}`
		labelled = `{"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"signerName": "example.com/x"}, "status": {"conditions": []}}`
		owned    = `{"metadata": {"name": "a", "ownerReferences": [{"uid": "u"}], "managedFields": [{}]}, "spec": {"signerName": "example.com/x"}, "status": {}}`
		free     = `{"metadata": {"name": "a"}, "spec": {"trustBundle": "x"}}`
	)
	const requests, bundles = "certificatesigningrequests", "clustertrustbundles"
	for _, tc := range []struct {
		name             string
		plural, sub      string
		op               resource.Operation
		object, old      string
		allowed          string // VERB NAME of a signer
		asked            string
		refused, handled bool
		text             string
	}{
		{name: "approve", plural: requests, sub: "approval", op: "UPDATE", object: failed, old: old, handled: true, refused: true,
			asked: "approve example.com/x, approve example.com/*",
			text:  `certificatesigningrequests.certificates.k8s.io "a" is forbidden: user not permitted to approve requests with signerName "example.com/x"`},
		{name: "approve by name", plural: requests, sub: "approval", op: "UPDATE", object: failed, old: old, handled: true, allowed: "approve example.com/x", asked: "approve example.com/x"},
		{name: "approve by domain", plural: requests, sub: "approval", op: "UPDATE", object: failed, old: old, handled: true, allowed: "approve example.com/*", asked: "approve example.com/x, approve example.com/*"},
		{name: "the signer of before counts", plural: requests, sub: "approval", op: "UPDATE", object: forged, old: old, handled: true, allowed: "approve example.org/mine", refused: true},
		{name: "who signs may not approve", plural: requests, sub: "approval", op: "UPDATE", object: failed, old: old, handled: true, allowed: "sign example.com/x", refused: true},
		{name: "sign", plural: requests, sub: "status", op: "UPDATE", object: answered, old: old, handled: true, refused: true,
			asked: "sign example.com/x, sign example.com/*",
			text:  `user not permitted to sign requests with signerName "example.com/x"`},
		{name: "fail", plural: requests, sub: "status", op: "UPDATE", object: failed, old: old, handled: true, refused: true, text: "to sign"},
		{name: "sign by name", plural: requests, sub: "status", op: "UPDATE", object: answered, old: old, handled: true, allowed: "sign example.com/x"},
		{name: "nothing of the status", plural: requests, sub: "status", op: "UPDATE", object: labelled, old: old, handled: true, asked: "-"},
		{name: "the request itself", plural: requests, op: "UPDATE", object: labelled, old: old},
		{name: "deletion", plural: requests, op: "DELETE", old: old},
		{name: "attest", plural: bundles, op: "CREATE", object: old, handled: true, refused: true,
			asked: "attest example.com/x, attest example.com/*", text: `clustertrustbundles.certificates.k8s.io "a" is forbidden: user not permitted to attest for signerName "example.com/x"`},
		{name: "attest by name", plural: bundles, op: "CREATE", object: old, handled: true, allowed: "attest example.com/x"},
		{name: "attest a change", plural: bundles, op: "UPDATE", object: labelled, old: old, handled: true, refused: true},
		{name: "collect garbage", plural: bundles, op: "UPDATE", object: owned, old: old, handled: true, asked: "-"},
		{name: "a bundle without a signer", plural: bundles, op: "CREATE", object: free, handled: true, asked: "-"},
		{name: "certificates of pods", plural: "podcertificaterequests", sub: "status", op: "UPDATE", object: answered, old: old},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked []string
			permit := func(_ context.Context, _ *resource.Request, a *authz.Attributes) error {
				text := a.Verb + " " + a.Name
				asked = append(asked, text)
				if a.Resource != "signers" || a.APIGroup != "certificates.k8s.io" || !a.ResourceRequest {
					t.Errorf("authorizes %+v", a)
				}
				if text == tc.allowed {
					return nil
				}
				return errors.New("no")
			}
			r := &resource.Request{
				Definition: &resource.Definition{Group: "certificates.k8s.io", Plural: tc.plural}, Version: &resource.Version{Name: "v1"},
				Name: "a", Subresource: tc.sub,
			}
			var handle []certificates.Plugin
			for _, name := range []string{certificates.Approval, certificates.Signing, certificates.Attest, certificates.SubjectRestriction} {
				if p := certificates.New(name, permit); p.Handles(r, tc.op) {
					handle = append(handle, p)
				}
			}
			if len(handle) > 1 || (len(handle) == 1) != tc.handled {
				t.Fatalf("handled by %d plugins", len(handle))
			}
			if !tc.handled {
				return
			}
			object, before := tree(t, tc.object), tree(t, tc.old)
			kept := maps.Clone(object["metadata"].(resource.Tree))
			err := handle[0].Validate(t.Context(), &resource.Admitted{Request: r, Operation: tc.op, Name: "a", Object: object, Old: before})
			if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want %q", err, tc.text)
			}
			if got := strings.Join(asked, ", "); tc.asked != "" && got != strings.TrimPrefix(tc.asked, "-") {
				t.Errorf("authorized %s, want %s", got, tc.asked)
			}
			if !slices.Equal(slices.Sorted(maps.Keys(kept)), slices.Sorted(maps.Keys(object["metadata"].(resource.Tree)))) {
				t.Error("the object was changed")
			}
		})
	}
}
