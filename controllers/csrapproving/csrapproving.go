// Package csrapproving approves the CertificateSigningRequests of kubelets for client certificates,
// if their user may have them: a SubjectAccessReview decides about the permission to create
// certificatesigningrequests/nodeclient, or selfnodeclient for the certificate that the user
// presents itself. A request that is not permitted yet is reviewed again with the backoff of
// Kubernetes, from 200 ms to 1,000 s.
//
// The package starts no goroutine.
package csrapproving

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// workers is the number of requests that are handled at a time, as in Kubernetes.
const workers = 5

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	return controller.NewControllerManagedBy(m).Named("certificatesigningrequest-approving-controller").
		For(&certificatesv1.CertificateSigningRequest{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.MaxOf(
				workqueue.ExponentialBackoff[controller.Request](200*time.Millisecond, 1000*time.Second),
				workqueue.Bucket[controller.Request](10, 100),
			),
		}).
		Complete(&reconciler{m.GetClient()})
}

// A permission is one that makes a request be approved.
type permission struct {
	subresource string
	message     string // of the approval
}

var (
	selfNode = permission{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}
	node     = permission{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
)

// reconciler is the Reconciler of CertificateSigningRequests. It has no state of its own.
type reconciler struct{ client client.Client }

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var csr certificatesv1.CertificateSigningRequest
	if err := r.client.Get(ctx, req.NamespacedName, &csr); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if len(csr.Status.Certificate) > 0 || decided(&csr) {
		return controller.Result{}, nil
	}
	permissions, err := permissionsFor(&csr)
	if err != nil {
		return controller.Result{}, fmt.Errorf("unable to parse csr %q: %w", csr.Name, err)
	}
	var tried []string
	for _, p := range permissions {
		tried = append(tried, p.subresource)
		allowed, err := r.review(ctx, &csr, p.subresource)
		if err != nil {
			return controller.Result{}, err
		}
		if allowed {
			return controller.Result{}, client.IgnoreNotFound(r.approve(ctx, &csr, p.message))
		}
	}
	if tried != nil {
		return controller.Result{}, fmt.Errorf("recognized csr %q as %v but subject access review was not approved", csr.Name, tried)
	}
	return controller.Result{}, nil
}

func (r *reconciler) review(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range csr.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: certificatesv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Subresource: subresource, Verb: "create",
		},
	}}
	err := r.client.Create(ctx, review)
	return review.Status.Allowed, err
}

func (r *reconciler) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, message string) error {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
	return r.client.SubResource("approval").Update(ctx, csr)
}

// decided reports whether a request is approved or denied.
func decided(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}

// permissionsFor returns the permissions any of which suffices to approve a request, and none for a
// request that is not that of a kubelet for a client certificate.
func permissionsFor(csr *certificatesv1.CertificateSigningRequest) ([]permission, error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	wanted, err := x509.ParseCertificateRequest(block.Bytes)
	switch {
	case err != nil:
		return nil, err
	case csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName, !ofKubelet(wanted, csr.Spec.Usages):
		return nil, nil
	case csr.Spec.Username == wanted.Subject.CommonName:
		return []permission{selfNode, node}, nil
	}
	return []permission{node}, nil
}

// ofKubelet reports whether a client certificate is that of a node, and nothing else.
func ofKubelet(wanted *x509.CertificateRequest, usages []certificatesv1.KeyUsage) bool {
	names := len(wanted.DNSNames) + len(wanted.EmailAddresses) + len(wanted.IPAddresses) + len(wanted.URIs)
	return slices.Equal(wanted.Subject.Organization, []string{"system:nodes"}) &&
		strings.HasPrefix(wanted.Subject.CommonName, "system:node:") && names == 0 && ofClient(usages)
}

// ofClient reports whether usages are those of the certificate of a client: with key encipherment
// for RSA, and without it.
func ofClient(usages []certificatesv1.KeyUsage) bool {
	needed := []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}
	for _, u := range usages {
		if u != certificatesv1.UsageKeyEncipherment && !slices.Contains(needed, u) {
			return false
		}
	}
	return slices.Contains(usages, needed[0]) && slices.Contains(usages, needed[1])
}
