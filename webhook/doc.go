// Package webhook serves the webhooks of an operator, which the API server calls to admit an object
// and to convert it between versions.
//
//	server := webhook.NewServer(webhook.Options{})
//	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{WebhookServer: server})
//	...
//	err = webhook.NewWebhookManagedBy(mgr, &batchv1.CronJob{}).
//		WithDefaulter(&CronJobDefaulter{}).
//		WithValidator(&CronJobValidator{}).
//		Complete()
//
// A [Defaulter] sets the defaults of an object, a [Validator] admits or denies an operation. Both
// get objects of their own Go type; [RequestFromContext] returns the rest of the request: the user,
// the operation, whether it is a dry run. A [Handler] gets the raw request, for everything else;
// register a [Webhook] with it by [Server.Register]. The names are those of controller-runtime's
// packages webhook and webhook/admission.
//
// # Paths
//
// A Defaulter is served at /mutate-GROUP-VERSION-KIND, a Validator at /validate-GROUP-VERSION-KIND,
// in lower case and with dashes for the dots of the group, as controller-gen writes them to
// manifests: /mutate-batch-tutorial-kubebuilder-io-v1-cronjob. Conversions of all kinds are served
// at /convert.
//
// # Guarantees
//
//   - Every AdmissionReview is answered in its own version (v1 or v1beta1) and with its uid. An
//     invalid review is answered with the error.
//   - The patch of a Defaulter contains its changes only, except for values that its Go type
//     encodes in another form, and zero values that it does not omit. Fields that the type does not
//     have are kept, also in elements of a list whose position changes.
//   - An error of k8s.io/apimachinery/pkg/api/errors, wrapped or not, reaches the client with its
//     code, reason and details. Any other error is 403 Forbidden with its message.
//   - A panic is answered with code 500, logged and counted in [Metrics]. The server continues.
//   - The size limit of an AdmissionReview is 7 MiB, of a ConversionReview 64 MiB.
//   - A conversion converts all objects in order, or returns which one failed and why. It cannot
//     change name, namespace and uid.
//
// # Conversions
//
// Versions of a kind are converted through one of them, the hub. There are three ways to define a
// conversion: the types implement [Hub] and [Convertible]; [NewHubSpokeConverter] takes functions;
// [Convert] takes rules of package convert, which converts fields with equal names without code,
// and finds fields that would be lost when the program starts.
//
// # Certificates
//
// API servers connect to webhooks by TLS, and trust the caBundle of the object that refers to the
// webhook. A [Server] takes its certificate from one of these:
//
//   - Files, as cert-manager mounts them: Options.CertDir. They are read every 10 seconds; an
//     invalid pair is ignored.
//   - Generated certificates: Options.Certificates, from [SelfSigned]. Each certificate has an
//     authority of its own, whose key is discarded. It is stored in a Secret, which replicas share,
//     and replaced when a third of its lifetime is left. The new authority is written to all
//     configurations before the new certificate is used; the old authority stays in the bundle
//     until it expires.
//   - Options.TLSOpts.
//
// A program on a developer's machine is reached by URL instead of a service: see
// CertificateOptions.URL.
//
//	certificates := webhook.SelfSigned(c, webhook.CertificateOptions{
//		Hosts:                         []string{"127.0.0.1"},
//		URL:                           "https://127.0.0.1:9443",
//		MutatingWebhookConfigurations: []string{"mutating-webhook-configuration"},
//	})
//	server := webhook.NewServer(webhook.Options{Certificates: certificates})
//
// # Goroutines and locks
//
// [Server.Start] owns all goroutines: those of net/http and the one that renews certificates. When
// its context ends, it accepts no more connections, waits up to one minute for active requests, and
// then for its goroutines. One lock guards the paths and one the converters; they are never held
// together, nor while a webhook runs. All time is read through package time: with a Listener in
// memory the server works in a bubble of testing/synctest.
package webhook
