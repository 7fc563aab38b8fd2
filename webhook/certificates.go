package webhook

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// CertificateOptions configure generated certificates: where they are stored, and which objects get
// their caBundle.
type CertificateOptions struct {
	// Hosts are the DNS names and IP addresses under which API servers reach the webhooks: see
	// ServiceHosts. At least one.
	Hosts []string
	// Secret stores the certificate, as tls.crt, tls.key and ca.crt, and shares it with other
	// replicas. Its namespace must exist. Default: the certificate is stored in memory, which suits
	// a single replica.
	Secret client.ObjectKey

	// MutatingWebhookConfigurations, ValidatingWebhookConfigurations and CustomResourceDefinitions
	// name the objects in which caBundle is set to the authority: of all their webhooks, and of the
	// conversion webhook. The objects may be created later.
	MutatingWebhookConfigurations   []string
	ValidatingWebhookConfigurations []string
	CustomResourceDefinitions       []string
	// URL is the address of this process, such as https://127.0.0.1:9443, if API servers cannot
	// reach it through the service that the objects name: it replaces the service in the objects,
	// with the path of the service appended. It is meant for programs on a developer's machine.
	URL string

	// Validity of a certificate. It is replaced when a third of it is left. Default 365 days.
	Validity time.Duration
	// Interval is the interval at which the Secret and the objects are checked. Default 1 minute.
	Interval time.Duration
}

// ServiceHosts returns the names under which API servers reach a service.
func ServiceHosts(service client.ObjectKey) []string {
	host := service.Name + "." + service.Namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

// Certificates generates certificates, replaces them before they expire, and writes their
// authorities to the objects whose clients must trust them. Set Options.Certificates: the server
// then runs it.
type Certificates struct {
	client  client.Client
	options CertificateOptions
	current atomic.Pointer[selfSigned] // that is served

	// Of Ensure alone:
	next    *selfSigned // that is to be served; the same as current most of the time
	trusted time.Time   // when next was written to all existing objects; zero before
}

// SelfSigned returns Certificates. The client must read from the server, as that of client.New
// does, not from the cache of a manager. It needs the rights to get, create and update the Secret,
// and to get and update the other objects.
func SelfSigned(c client.Client, o CertificateOptions) *Certificates {
	if o.Validity == 0 {
		o.Validity = 365 * 24 * time.Hour
	}
	if o.Interval == 0 {
		o.Interval = time.Minute
	}
	return &Certificates{client: c, options: o}
}

// GetCertificate returns the current certificate, for tls.Config. It returns an error until there
// is one.
func (c *Certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return &current.tls, nil
	}
	return nil, errors.New("the webhook server has no certificate yet")
}

// CABundle returns the authorities that clients must trust, in PEM. It is nil until there is a
// certificate.
func (c *Certificates) CABundle() []byte {
	if current := c.current.Load(); current != nil {
		return current.bundle
	}
	return nil
}

// run calls Ensure until ctx ends: every Interval, and earlier after an error.
func (c *Certificates) run(ctx context.Context) {
	log := loggerFrom(ctx)
	pause := time.Second
	for {
		next := c.options.Interval
		if err := c.Ensure(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "cannot update the certificates of webhooks")
			next = min(pause, next)
			pause = 2 * next
		} else {
			pause = time.Second
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// Ensure obtains a certificate, writes its authority to all objects, and serves it one Interval
// later, because API servers need a moment to read a new authority. While an object cannot be
// updated, the old certificate stays in use if it is valid. The server calls Ensure periodically. A
// program that needs the certificate or CABundle earlier calls it, too, but not while the server
// runs. The error joins everything that failed; there may be a certificate nevertheless.
func (c *Certificates) Ensure(ctx context.Context) error {
	next, err := c.obtain(ctx)
	if err != nil {
		return err
	}
	if c.next == nil || !c.next.equal(next) {
		c.next, c.trusted = next, time.Time{}
	}
	current := c.current.Load()
	if current == nil {
		c.serve(ctx)
	}
	told, err := c.tell(ctx, next.bundle)
	switch {
	case !told:
		c.trusted = time.Time{}
	case c.trusted.IsZero():
		c.trusted = time.Now()
	}
	ready := told && time.Since(c.trusted) >= c.options.Interval
	if current != nil && !next.equal(current) && (ready || current.check(c.options.Hosts, time.Now()) != nil) {
		c.serve(ctx)
	}
	return err
}

// serve makes the next certificate the current one.
func (c *Certificates) serve(ctx context.Context) {
	c.current.Store(c.next)
	loggerFrom(ctx).Info("serving a new certificate", "until", c.next.tls.Leaf.NotAfter)
}

// obtain returns a certificate that need not be replaced yet.
func (c *Certificates) obtain(ctx context.Context) (*selfSigned, error) {
	if c.options.Secret.Name == "" {
		return c.renew(c.next)
	}
	for range conflicts {
		made, err := c.obtainShared(ctx)
		if err == nil || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return made, err
		}
	}
	return nil, fmt.Errorf("secret %s: too many conflicts with other writers", c.options.Secret)
}

// conflicts is the maximum number of attempts to write the Secret, if other writers change it too.
const conflicts = 10

// renew returns a certificate unchanged, or its replacement if it is due. old may be nil. Replicas
// that share a certificate may have different hosts during a rollout, so the hosts of the old
// certificate are kept.
func (c *Certificates) renew(old *selfSigned) (*selfSigned, error) {
	now := time.Now()
	switch {
	case old == nil:
		return newSelfSigned(c.options.Hosts, c.options.Validity, now, nil)
	case old.due(c.options.Hosts, now) == nil:
		return old, nil
	}
	return newSelfSigned(old.hosts(c.options.Hosts), c.options.Validity, now, old.bundle)
}

// obtainShared reads the certificate from the Secret, or writes a new one. Of concurrent writers
// one succeeds; the others get a conflict or an "already exists" error, and read again.
func (c *Certificates) obtainShared(ctx context.Context) (*selfSigned, error) {
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := c.client.Get(ctx, c.options.Secret, secret)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("secret %s: %w", c.options.Secret, err)
	}
	stored, err := parseSelfSigned(secretData(secret, corev1.TLSCertKey), secretData(secret, corev1.TLSPrivateKeyKey), secretData(secret, caKey))
	old := stored
	if err != nil {
		old = c.next // there is nothing, or nothing that can be used, but there may have been
	}
	made, err := c.renew(old)
	if err != nil || made == stored {
		return made, err
	}
	for key, value := range map[string][]byte{corev1.TLSCertKey: made.cert, corev1.TLSPrivateKeyKey: made.key, caKey: made.bundle} {
		if err := unstructured.SetNestedField(secret.Object, base64.StdEncoding.EncodeToString(value), "data", key); err != nil {
			return nil, fmt.Errorf("secret %s: %w", c.options.Secret, err)
		}
	}
	if exists {
		err = c.client.Update(ctx, secret)
	} else {
		secret.Object["type"] = string(corev1.SecretTypeTLS)
		secret.SetNamespace(c.options.Secret.Namespace)
		secret.SetName(c.options.Secret.Name)
		err = c.client.Create(ctx, secret)
	}
	switch {
	case apierrors.IsNotFound(err) && !exists:
		return nil, fmt.Errorf("create secret %s: %v", c.options.Secret, err) // it is its namespace that is not found
	case err != nil:
		return nil, fmt.Errorf("secret %s: %w", c.options.Secret, err)
	}
	return made, nil
}

// caKey is the key of the authorities in a Secret, as in those of cert-manager.
const caKey = "ca.crt"

// secretData returns a value of a Secret, or nil.
func secretData(secret *unstructured.Unstructured, key string) []byte {
	encoded, _, err := unstructured.NestedString(secret.Object, "data", key)
	if err != nil {
		return nil
	}
	value, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	return value
}

// tell writes the authorities to all objects. told is true if no update of an existing object
// failed.
func (c *Certificates) tell(ctx context.Context, bundle []byte) (told bool, err error) {
	var errs []error
	told = true
	for _, kind := range configurationKinds {
		for _, name := range kind.names(&c.options) {
			if err := c.tellOne(ctx, kind, name, bundle); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", kind.Kind, name, err))
				told = told && apierrors.IsNotFound(err)
			}
		}
	}
	return told, errors.Join(errs...)
}

// tellOne writes the authorities to one object, unless it has them.
func (c *Certificates) tellOne(ctx context.Context, kind configurationKind, name string, bundle []byte) error {
	for range conflicts {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind.GroupVersionKind)
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, obj); err != nil {
			return err
		}
		changed, err := point(obj.Object, c.options.URL, bundle)
		if err != nil || !changed {
			return err
		}
		if err := c.client.Update(ctx, obj); !apierrors.IsConflict(err) {
			return err
		}
	}
	return errors.New("too many conflicts with other writers")
}
