// Package csrcleaner deletes old requests for certificates: CertificateSigningRequests an hour
// after they were denied, failed, or issued, when their certificate has expired, or a day after
// they were created or approved without a further result; and PodCertificateRequests 15 minutes
// after they were created. Kubernetes' controllers check all requests every hour, and every five
// minutes; these act when the time has passed.
//
// The package starts no goroutine.
package csrcleaner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	afterDecision = time.Hour      // after a request was denied, has failed, or was issued
	afterNothing  = 24 * time.Hour // after it was created, or was approved and not issued
	ofPod         = 15 * time.Minute
)

// Add adds the controller of CertificateSigningRequests to a manager.
func Add(m manager.Manager) error {
	c := m.GetClient()
	return controller.NewControllerManagedBy(m).Named("certificatesigningrequest-cleaner-controller").
		For(&certificatesv1.CertificateSigningRequest{}).
		Complete(controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			var csr certificatesv1.CertificateSigningRequest
			if err := c.Get(ctx, req.NamespacedName, &csr, client.UnsafeDisableDeepCopy); err != nil {
				return controller.Result{}, client.IgnoreNotFound(err)
			}
			return deleteAt(ctx, c, &csr, endOf(&csr))
		}))
}

// AddOfPods adds the controller of PodCertificateRequests to a manager.
func AddOfPods(m manager.Manager) error {
	c := m.GetClient()
	return controller.NewControllerManagedBy(m).Named("podcertificaterequest-cleaner-controller").
		For(&certificatesv1.PodCertificateRequest{}).
		Complete(controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			var pcr certificatesv1.PodCertificateRequest
			if err := c.Get(ctx, req.NamespacedName, &pcr, client.UnsafeDisableDeepCopy); err != nil {
				return controller.Result{}, client.IgnoreNotFound(err)
			}
			return deleteAt(ctx, c, &pcr, pcr.CreationTimestamp.Add(ofPod))
		}))
}

// deleteAt deletes an object when a time has come. The zero time never comes.
func deleteAt(ctx context.Context, c client.Client, o client.Object, at time.Time) (controller.Result, error) {
	if at.IsZero() || o.GetDeletionTimestamp() != nil {
		return controller.Result{}, nil
	}
	if pause := time.Until(at); pause > 0 {
		return controller.Result{RequeueAfter: pause}, nil
	}
	uid := o.GetUID()
	gone := o.DeepCopyObject().(client.Object)
	return controller.Result{}, client.IgnoreNotFound(c.Delete(ctx, gone, client.Preconditions{UID: &uid}))
}

// endOf returns the first time at which a request is to be deleted; zero if there is none.
func endOf(csr *certificatesv1.CertificateSigningRequest) (end time.Time) {
	at := func(t time.Time, pause time.Duration) {
		if t.IsZero() {
			return
		}
		if t = t.Add(pause); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	issued := len(csr.Status.Certificate) > 0
	if len(csr.Status.Conditions) == 0 {
		at(csr.CreationTimestamp.Time, afterNothing)
	}
	for _, c := range csr.Status.Conditions {
		switch {
		case c.Type == certificatesv1.CertificateDenied, c.Type == certificatesv1.CertificateFailed:
			at(c.LastUpdateTime.Time, afterDecision)
		case c.Type == certificatesv1.CertificateApproved && issued:
			at(c.LastUpdateTime.Time, afterDecision)
			at(expiry(csr.Status.Certificate), 0)
		case c.Type == certificatesv1.CertificateApproved:
			at(c.LastUpdateTime.Time, afterNothing)
		}
	}
	return end
}

// expiry returns when a certificate in PEM ends; zero if it cannot be read.
func expiry(text []byte) time.Time {
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}
	}
	certs, err := x509.ParseCertificates(block.Bytes)
	if err != nil || len(certs) == 0 {
		return time.Time{}
	}
	return certs[0].NotAfter
}
