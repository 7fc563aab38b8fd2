// Package webhook serves the webhooks of an operator: what the API server asks before it takes an object, and when an object is wanted
// in another version than it is stored in.
//
//	server := webhook.NewServer(webhook.Options{})
//	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{WebhookServer: server})
//	...
//	err = webhook.NewWebhookManagedBy(mgr, &batchv1.CronJob{}).
//		WithDefaulter(&CronJobDefaulter{}).
//		WithValidator(&CronJobValidator{}).
//		Complete()
//
// A [Defaulter] fills in what an object leaves open, a [Validator] says whether an operation may pass. They get objects of their own
// type. [RequestFromContext] has the rest of what is known: who asks, with which operation, whether it is a dry run. A [Handler] gets
// the request as it is, for what these cannot do; register a [Webhook] with it by [Server.Register]. The names are those of
// controller-runtime's packages webhook and webhook/admission.
//
// # Paths
//
// A Defaulter is at /mutate-GROUP-VERSION-KIND, a Validator at /validate-GROUP-VERSION-KIND, in lower case and with dashes for the dots
// of the group, as controller-gen writes them into manifests: /mutate-batch-tutorial-kubebuilder-io-v1-cronjob. Conversions are at
// /convert, for all kinds.
//
// # What it promises
//
//   - Every AdmissionReview is answered in its own version (v1 or v1beta1) and with its uid; what is wrong with one is in the answer.
//   - The change that a Defaulter makes is all that is patched, but for values that its type writes in another form, and zero values that
//     it writes out. Fields that its type does not know stay, also in elements of a list that move because others come or go.
//   - An error of k8s.io/apimachinery/pkg/api/errors, wrapped or not, reaches the user with its code, reason and details; any other error
//     is 403 Forbidden with its message.
//   - A panic is an answer with code 500, a log entry and a count in [Metrics]; the server goes on.
//   - An AdmissionReview may have 7 MiB, a ConversionReview 64 MiB.
//   - A conversion converts all objects in order, or says which failed and why. It may not change name, namespace and uid.
//
// # Conversions
//
// The versions of a kind are converted through one of them, the hub. Who prefers methods has the types implement [Hub] and [Convertible],
// and need not say more; [NewHubSpokeConverter] takes functions; [Convert] takes rules of package convert, which convert fields of the
// same name by themselves and find at the start what would be lost.
//
// # Certificates
//
// API servers speak TLS to webhooks, and trust the caBundle of the object that names the webhook. A [Server] takes certificates from
//
//   - files, as cert-manager and others mount them: Options.CertDir. They are read every 10 seconds; what is no pair is passed over;
//   - itself: Options.Certificates, made by [SelfSigned]. Each certificate has an authority of its own, whose key is thrown away. It is
//     kept in a Secret, where replicas share it, and replaced when a third of its time is left. The new authority is told to everybody a
//     while before the new certificate is shown; the old authority stays in the bundle until it expires;
//   - elsewhere: Options.TLSOpts.
//
// A program that runs on the developer's machine is reached by URL rather than as a service: see CertificateOptions.URL.
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
// [Server.Start] owns all goroutines: that of net/http and the one that looks after certificates. When its context ends, it takes no more
// connections, waits for the requests that are under way, a minute at most, and then for its goroutines. Locks guard the paths and
// the converters, are never held together, and not while a hook runs. All time is that of package time: with a Listener in memory the
// server works in a bubble of testing/synctest.
package webhook
