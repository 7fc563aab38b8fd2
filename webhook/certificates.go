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

// CertificateOptions say which certificates are made, where they are kept, and who is told to trust them.
type CertificateOptions struct {
	// Hosts are the DNS names and IP addresses under which API servers reach the webhooks: see ServiceHosts. At least one.
	Hosts []string
	// Secret is where the certificate is kept, as tls.crt, tls.key and ca.crt, and shared with other replicas. Its namespace must
	// exist. Default: it is kept in memory, which is for one replica.
	Secret client.ObjectKey

	// MutatingWebhookConfigurations, ValidatingWebhookConfigurations and CustomResourceDefinitions are names of the objects that get
	// the authority as caBundle: for all their webhooks, and for the conversion webhook. They may be made later.
	MutatingWebhookConfigurations   []string
	ValidatingWebhookConfigurations []string
	CustomResourceDefinitions       []string
	// URL is where this process is, as https://127.0.0.1:9443, when API servers cannot reach it as the service that the objects
	// name: they get the URL instead, with the path of the service. It is for programs that run on the developer's machine.
	URL string

	// Validity of a certificate. When a third of it is left, there is a new one. Default 365 days.
	Validity time.Duration
	// Interval is how often the Secret and the objects are looked at. Default 1 minute.
	Interval time.Duration
}

// ServiceHosts are the names under which API servers reach a service.
func ServiceHosts(service client.ObjectKey) []string {
	host := service.Name + "." + service.Namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

// Certificates are made by the program itself, replaced before they expire, and trusted by those who are told to. Give them to
// Options.Certificates, whose server then runs them.
type Certificates struct {
	client  client.Client
	options CertificateOptions
	current atomic.Pointer[selfSigned] // that is served

	// Of Ensure alone:
	next    *selfSigned // that is to be served; the same as current most of the time
	trusted time.Time   // since when everybody who is there has been told to trust next; zero if not
}

// SelfSigned makes Certificates. The client must read from the server, as that of client.New does, not from the cache of a manager,
// and may get, create and update the Secret, and get and update the other objects.
func SelfSigned(c client.Client, o CertificateOptions) *Certificates {
	if o.Validity == 0 {
		o.Validity = 365 * 24 * time.Hour
	}
	if o.Interval == 0 {
		o.Interval = time.Minute
	}
	return &Certificates{client: c, options: o}
}

// GetCertificate is for tls.Config. It fails until there is a certificate.
func (c *Certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return &current.tls, nil
	}
	return nil, errors.New("the certificate of the webhook server is not there yet")
}

// CABundle are the authorities, in PEM, that clients must trust; nil until there is a certificate.
func (c *Certificates) CABundle() []byte {
	if current := c.current.Load(); current != nil {
		return current.bundle
	}
	return nil
}

// run ensures that all is well until ctx is done: every Interval, and after a failure earlier.
func (c *Certificates) run(ctx context.Context) {
	log := loggerFrom(ctx)
	pause := time.Second
	for {
		next := c.options.Interval
		if err := c.Ensure(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "the certificates of webhooks are not as they should be")
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

// Ensure has a certificate, has it trusted, and then has it served, an Interval later, as API servers need a moment to hear of a new
// authority. As long as somebody could not be told, the old certificate is served, if it is good. The server calls it again and again;
// who needs the certificate or its CABundle before calls it, too, but not while the server runs. The error tells of all that could not
// be done; there may be a certificate nevertheless.
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

// serve has the next certificate served.
func (c *Certificates) serve(ctx context.Context) {
	c.current.Store(c.next)
	loggerFrom(ctx).Info("serving a new certificate", "until", c.next.tls.Leaf.NotAfter)
}

// obtain returns a certificate that is good for some time.
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
	return nil, fmt.Errorf("the Secret %s: somebody else changes it again and again", c.options.Secret)
}

// conflicts is how often a change is tried when others change the same object.
const conflicts = 10

// renew returns a certificate as it is, or another if it is due; old may be nil. Replicas that share a certificate may have different
// hosts for a while, and so those of the other stay.
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

// obtainShared reads the certificate from the Secret, or writes a new one. Of several who write at a time one wins; the others get
// a conflict, or that it exists, and read again.
func (c *Certificates) obtainShared(ctx context.Context) (*selfSigned, error) {
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := c.client.Get(ctx, c.options.Secret, secret)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the Secret %s: %w", c.options.Secret, err)
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
			return nil, fmt.Errorf("the Secret %s: %w", c.options.Secret, err)
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
		return nil, fmt.Errorf("the Secret %s cannot be made: %v", c.options.Secret, err) // it is its namespace that is not found
	case err != nil:
		return nil, fmt.Errorf("the Secret %s: %w", c.options.Secret, err)
	}
	return made, nil
}

// caKey is where a Secret with a certificate has the authorities, as cert-manager has it, too.
const caKey = "ca.crt"

// secretData is a value of a Secret; nil if there is none.
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

// tell writes the authorities into all objects. It has told everybody if it failed with none that exists.
func (c *Certificates) tell(ctx context.Context, bundle []byte) (told bool, err error) {
	var errs []error
	told = true
	for _, kind := range configurationKinds {
		for _, name := range kind.names(&c.options) {
			if err := c.tellOne(ctx, kind, name, bundle); err != nil {
				errs = append(errs, fmt.Errorf("the %s %s: %w", kind.Kind, name, err))
				told = told && apierrors.IsNotFound(err)
			}
		}
	}
	return told, errors.Join(errs...)
}

// tellOne writes the authorities into an object, if they are not there.
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
	return errors.New("somebody else changes it again and again")
}
