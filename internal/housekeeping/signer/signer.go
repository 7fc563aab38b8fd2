// Package signer signs approved CertificateSigningRequests: for client certificates, of the signers
// kubernetes.io/kube-apiserver-client and kubernetes.io/kube-apiserver-client-kubelet, and for the
// serving certificates of kubelets, of kubernetes.io/kubelet-serving. Duration and checks are those
// of Kubernetes' signing controllers. It approves nothing.
//
// A [Signer] owns one goroutine, which follows the state, and is idle without approvals. There are
// no locks.
package signer

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Authority signs certificates. *pki.Authority implements it.
type Authority interface {
	// Issue signs a certificate for a key, and returns it in DER.
	Issue(template *x509.Certificate, key crypto.PublicKey) ([]byte, error)
	// NotAfter returns the end of the authority's validity.
	NotAfter() time.Time
}

// requests is the resource of CertificateSigningRequests.
var requests = schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}

// A Signer signs requests. [Start] starts it.
type Signer struct {
	store     *resource.Store
	authority Authority
	log       *slog.Logger
	feed      *state.Feed

	stop func()
	done sync.WaitGroup
}

// Start processes all requests once, and then follows their changes until Close.
func Start(ctx context.Context, store *resource.Store, authority Authority, log *slog.Logger) *Signer {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Signer{store: store, authority: authority, log: log, stop: cancel}
	s.feed = store.State().Feed(func(e *state.Event) bool { return e.Object != nil && e.Object.Key.Resource == requests })
	s.done.Go(func() {
		defer s.feed.Close()
		s.run(ctx)
	})
	return s
}

// Close ends the goroutine and waits for it.
func (s *Signer) Close() {
	s.stop()
	s.done.Wait()
}

// retry is the pause after a failure.
const retry = 10 * time.Second

func (s *Signer) run(ctx context.Context) {
	waiting := map[object.Key]struct{}{}
	for o := range s.store.State().Snapshot(requests).All("") {
		waiting[o.Key] = struct{}{}
	}
	for {
		for key := range waiting {
			err := s.answer(ctx, key)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				delete(waiting, key)
			} else {
				s.log.Warn("cannot process a CertificateSigningRequest", "request", key.Name, "retry", retry, "error", err)
			}
		}
		events, more := s.feed.Take()
		if more != nil && !s.wait(ctx, more, len(waiting) > 0) {
			return
		}
		for _, e := range events {
			waiting[e.Object.Key] = struct{}{}
		}
	}
}

// wait returns when there is more to do, and false if the signer ends.
func (s *Signer) wait(ctx context.Context, more <-chan struct{}, failed bool) bool {
	var again <-chan time.Time
	if failed {
		timer := time.NewTimer(retry)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-more:
	case <-again:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// answer signs a request, or writes the reason why it fails, if it is this signer's turn.
func (s *Signer) answer(ctx context.Context, key object.Key) error {
	o, _ := s.store.State().Get(key)
	if o == nil {
		return nil
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	tree, err := o.Tree()
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, csr)
	}
	if err != nil {
		return err
	}
	if !turn(csr) {
		return nil
	}
	certificate, problem, err := s.sign(csr, time.Now())
	if err != nil {
		return err
	}
	err = s.write(ctx, o, func(status resource.Tree) {
		if problem != nil {
			conditions, _ := status["conditions"].([]any)
			status["conditions"] = append(conditions, failed(problem))
			return
		}
		status["certificate"] = base64.StdEncoding.EncodeToString(certificate)
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // its event follows
	}
	return err
}

// turn reports whether a request is approved, and neither signed nor failed.
func turn(csr *certificatesv1.CertificateSigningRequest) bool {
	approved := false
	for _, c := range csr.Status.Conditions {
		switch {
		case c.Type == certificatesv1.CertificateApproved:
			approved = true
		case c.Type == certificatesv1.CertificateDenied:
			return false
		case c.Type == certificatesv1.CertificateFailed && (c.Status == "" || c.Status == corev1.ConditionTrue):
			return false
		}
	}
	return approved && len(csr.Status.Certificate) == 0 && rules[csr.Spec.SignerName] != nil
}

func failed(problem error) resource.Tree {
	return resource.Tree{
		"type":           string(certificatesv1.CertificateFailed),
		"status":         string(corev1.ConditionTrue),
		"reason":         "SignerValidationFailure",
		"message":        problem.Error(),
		"lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
	}
}

// write changes the status of a request, unless the request has changed since it was processed.
func (s *Signer) write(ctx context.Context, o *object.Object, change func(status resource.Tree)) error {
	d := s.store.Registry().Load().Resource(requests)
	if d == nil {
		return fmt.Errorf("%s are not served", requests)
	}
	r := &resource.Request{
		Definition: d, Version: d.Storage, Name: o.Key.Name, Subresource: "status",
		Manager: "kube-controller-manager", FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
	_, err := s.store.Edit(ctx, r, func(live resource.Tree) error {
		if metadata, _ := live["metadata"].(resource.Tree); metadata["resourceVersion"] != o.Revision.String() {
			return apierrors.NewConflict(requests, o.Key.Name, errors.New("the request has changed"))
		}
		status, _ := live["status"].(resource.Tree)
		if status == nil {
			status = resource.Tree{}
			live["status"] = status
		}
		change(status)
		return nil
	})
	return err
}

// sign returns a certificate in PEM, or the problem of the request if it cannot be signed.
func (s *Signer) sign(csr *certificatesv1.CertificateSigningRequest, now time.Time) (certificate []byte, problem, err error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return nil, nil, errors.New("the request is not in PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	if err := rules[csr.Spec.SignerName](request, csr.Spec.Usages); err != nil {
		return nil, err, nil
	}
	if err := request.CheckSignature(); err != nil {
		return nil, nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	if end := s.authority.NotAfter(); !now.Before(end) {
		return nil, nil, fmt.Errorf("refusing to sign a certificate that expired in the past: NotAfter=%v", end)
	}
	der, err := s.authority.Issue(template(request, csr.Spec.Usages, life(csr.Spec.ExpirationSeconds), now), request.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil, nil
}
