package corpus

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
)

// startImages starts a webhook for the plugin ImagePolicyWebhook, which ends with t. The first
// image of a pod decides about the response:
//
//	denied     not allowed, without a reason
//	explained  not allowed; the reason is the spec of the review
//	counted    not allowed; the reason is the number of reviews with such an image
//	annotated  allowed, with an audit annotation
//	broken     500, not a review
//	foreign    another kind than a review
//	garbled    no JSON
//
// All others are allowed.
func startImages(t *testing.T) *httptest.Server {
	var counted atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review imagepolicyv1alpha1.ImageReview
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &review)
		}
		if err != nil || len(review.Spec.Containers) == 0 {
			http.Error(w, fmt.Sprintf("no review: %v", err), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		image, _, _ := strings.Cut(review.Spec.Containers[0].Image, ":")
		switch image {
		case "denied":
		case "explained":
			spec, _ := json.Marshal(review.Spec)
			review.Status.Reason = string(spec)
		case "counted":
			review.Status.Reason = fmt.Sprint(counted.Add(1))
		case "annotated":
			review.Status.Allowed, review.Status.AuditAnnotations = true, map[string]string{"key": "value"}
		case "broken":
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		case "foreign":
			io.WriteString(w, `{"apiVersion": "v1", "kind": "Pod"}`)
			return
		case "garbled":
			io.WriteString(w, "garbled")
			return
		default:
			review.Status.Allowed = true
		}
		json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	return server
}

// authorityOf returns the certificate of a server.
func authorityOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
