package ctrl

import (
	"context"
	"flag"
	"net/http"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/client/scheme"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/manager/log"
	"github.com/kapok-dev/kapok/webhook"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Objects and clients: see package client.
type (
	// Client reads and writes the objects of an API server.
	Client = client.Client
	// Reader is the reading half of a Client. Manager.GetAPIReader returns one that bypasses the
	// cache.
	Reader = client.Reader
	// Object is an API object: any type with metadata.
	Object = client.Object
	// ObjectKey is the namespace and name of an object.
	ObjectKey = client.ObjectKey
	// InNamespace is the option that restricts a list to one namespace.
	InNamespace = client.InNamespace
	// SchemeBuilder collects the Go types of a group and version.
	SchemeBuilder = scheme.Builder

	// GroupVersion is the group and version of a kind.
	GroupVersion = schema.GroupVersion
	// GroupResource is the group and plural name of a kind.
	GroupResource = schema.GroupResource
	// TypeMeta is the apiVersion and kind of an object.
	TypeMeta = metav1.TypeMeta
	// ObjectMeta is the metadata of an object.
	ObjectMeta = metav1.ObjectMeta
)

// Managers: see package manager.
type (
	// Manager runs controllers and their dependencies.
	Manager = manager.Manager
	// Options configure a Manager. The zero value opens no socket and elects no leader.
	Options = manager.Options
	// EventRecorder records events (events.k8s.io). Manager.GetEventRecorder returns one.
	EventRecorder = manager.EventRecorder
	// Checker is a health check. It returns an error if it fails.
	Checker = manager.Checker
)

// Controllers: see package controller.
type (
	// Builder builds a controller. NewControllerManagedBy returns one.
	Builder = controller.Builder
	// ControllerOptions configure one controller: see Builder.WithOptions.
	ControllerOptions = controller.Options
	// Reconciler brings the cluster to the state that an object describes.
	Reconciler = controller.Reconciler
	// Func is a Reconciler made of a function.
	Func = controller.Func
	// Request is the key of the object to reconcile.
	Request = controller.Request
	// Result schedules the next reconciliation of an object. The zero value means at its next event.
	Result = controller.Result
)

// Log is the program's logger, for code outside of a Reconciler. SetLogger replaces its sink.
var Log = log.Log

// RegisterFlags adds the flag --kubeconfig to flags, or to flag.CommandLine if flags is nil. Call
// it before flag.Parse.
func RegisterFlags(flags *flag.FlagSet) { manager.RegisterFlags(flags) }

// GetConfig returns the configuration for the API server: see manager.GetConfig for where it looks.
func GetConfig() (*rest.Config, error) { return manager.GetConfig() }

// GetConfigOrDie is GetConfig that logs an error and exits with code 1.
func GetConfigOrDie() *rest.Config { return manager.GetConfigOrDie() }

// NewManager returns a Manager: see manager.New. If Options.WebhookServer is nil, it is
// webhook.NewServer with default options, which starts only if a webhook is registered.
func NewManager(cfg *rest.Config, opts Options) (Manager, error) {
	if opts.WebhookServer == nil {
		opts.WebhookServer = webhook.NewServer(webhook.Options{})
	}
	return manager.New(cfg, opts)
}

// SetupSignalHandler returns a context that is canceled by the first SIGINT or SIGTERM. The second
// exits with code 1. Call it once, in main.
func SetupSignalHandler() context.Context { return manager.SetupSignalHandler() }

// Ping is the Checker that always succeeds.
func Ping(r *http.Request) error { return manager.Ping(r) }

// NewControllerManagedBy returns a Builder of a controller that m runs.
func NewControllerManagedBy(m Manager) *Builder { return controller.NewControllerManagedBy(m) }

// WithPredicates is an option of Builder.For, Owns and Watches that drops the events that one of
// the predicates rejects: see package controller/predicate.
func WithPredicates(p ...predicate.Predicate) controller.Predicates {
	return controller.WithPredicates(p...)
}

// NewWebhookManagedBy returns a builder of webhooks for the kind of obj, which is a pointer to a Go
// type in the scheme of m.
func NewWebhookManagedBy[T runtime.Object](m Manager, obj T) *webhook.WebhookBuilder[T] {
	return webhook.NewWebhookManagedBy(m, obj)
}

// TerminalError wraps an error of a Reconciler that a retry cannot fix: the request is not retried.
func TerminalError(err error) error { return controller.TerminalError(err) }

// IgnoreNotFound returns nil if err is a "not found" error of an API server, and err otherwise.
func IgnoreNotFound(err error) error { return client.IgnoreNotFound(err) }

// ObjectKeyFromObject returns the key of obj.
func ObjectKeyFromObject(obj Object) ObjectKey { return client.ObjectKeyFromObject(obj) }

// MergeFrom returns a merge patch with the changes of an object since before, which is a deep copy
// of its earlier state.
func MergeFrom(before Object) client.Patch { return client.MergeFrom(before) }

// SetControllerReference makes owner the controller of an object: the object is garbage collected
// with its owner, and Builder.Owns maps its events to the owner. It returns an error if the object
// has another controller.
func SetControllerReference(owner, controlled metav1.Object, scheme *runtime.Scheme, opts ...client.OwnerReferenceOption) error {
	return client.SetControllerReference(owner, controlled, scheme, opts...)
}

// CreateOrUpdate creates obj, or updates it if mutate changes it: see client.CreateOrUpdate.
func CreateOrUpdate(ctx context.Context, c Client, obj Object, mutate client.MutateFn) (client.OperationResult, error) {
	return client.CreateOrUpdate(ctx, c, obj, mutate)
}

// CreateOrPatch creates obj, or patches it if mutate changes it: see client.CreateOrPatch.
func CreateOrPatch(ctx context.Context, c Client, obj Object, mutate client.MutateFn) (client.OperationResult, error) {
	return client.CreateOrPatch(ctx, c, obj, mutate)
}

// SetLogger sets the logger behind Log, slog's default, and every Manager without Options.Logger.
func SetLogger(l logr.Logger) { log.SetLogger(l) }

// LoggerFrom returns the logger of a context, with key-value pairs added. In Reconcile it carries
// the controller and the object.
func LoggerFrom(ctx context.Context, values ...any) logr.Logger {
	return log.FromContext(ctx, values...)
}

// LoggerInto returns a copy of ctx that carries the logger.
func LoggerInto(ctx context.Context, l logr.Logger) context.Context { return log.IntoContext(ctx, l) }
