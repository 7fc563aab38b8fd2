package cache

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Options configure a Cache. The zero value caches all objects of each kind that is read. Settings
// of a namespace precede those of its kind, and these precede those for all kinds.
type Options struct {
	HTTPClient *http.Client    // default: made of the rest.Config
	Scheme     *runtime.Scheme // default: that of k8s.io/client-go/kubernetes/scheme
	Mapper     meta.RESTMapper // default: one that asks the server
	Logger     *slog.Logger    // default: slog.Default

	// SyncPeriod is the time between two resyncs of the handlers. Default: no resync.
	SyncPeriod *time.Duration
	// DefaultNamespaces are the cached namespaces with their settings; metav1.NamespaceAll stands
	// for the namespaces that are not listed. It does not apply to cluster-scoped kinds. Default:
	// all namespaces.
	DefaultNamespaces map[string]Config
	// DefaultLabelSelector and DefaultFieldSelector restrict the cached objects. Default: all
	// objects.
	DefaultLabelSelector labels.Selector
	DefaultFieldSelector fields.Selector
	// DefaultTransform changes objects before they are cached. Default: none.
	DefaultTransform TransformFunc
	// DefaultStorage is the form in which objects are stored. Default: Compact.
	DefaultStorage Storage
	// DefaultUnsafeDisableDeepCopy lets reads share objects with the cache: see
	// client.UnsafeDisableDeepCopy. Default: false.
	DefaultUnsafeDisableDeepCopy *bool
	// UnsafeSharedEvents lets event handlers and index functions share objects with the cache and
	// with each other: they must not change them. A change is then decoded once, however many
	// handlers there are. Default: false.
	UnsafeSharedEvents bool
	// MutationDetected is called for objects that were changed although they were shared with the
	// cache, when the cache ends or drops them. It is for tests: it needs as much processor time
	// again for each shared object. Default: changes are not detected.
	MutationDetected func(kind schema.GroupVersionKind, key client.ObjectKey, diff string)
	// State is the state of a server in this process, from which the cache reads instead of its
	// connection: see local.Of. A read then sees every write that was committed before it, of all
	// kinds, and the cache copies only the objects that were read last. Kinds of extension servers
	// are still read from the connection. Transforms and index functions must not read the same
	// cache. Default: none.
	State local.State
	// ByObject has settings for single kinds.
	ByObject map[client.Object]ByObject
}

// ByObject are the settings of a kind. Unset fields have the value of Options.
type ByObject struct {
	Namespaces map[string]Config
	Label      labels.Selector
	Field      fields.Selector
	Transform  TransformFunc
	Storage    Storage
	SyncPeriod *time.Duration
	// UnsafeDisableDeepCopy is DefaultUnsafeDisableDeepCopy for the kind.
	UnsafeDisableDeepCopy *bool
}

// Config are the settings of a namespace. Unset fields have the value of the kind.
type Config struct {
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	Transform     TransformFunc
}

// AllNamespaces is the key in Options.DefaultNamespaces and ByObject.Namespaces for the namespaces
// that are not listed.
const AllNamespaces = metav1.NamespaceAll

// A NewCacheFunc creates a cache, as New does.
type NewCacheFunc func(*rest.Config, Options) (Cache, error)

// A TransformFunc changes an object before it is cached. It gets and returns a client.Object. If it
// returns an error, the object is cached unchanged, and the error is logged. It must not change the
// name, the namespace, the uid or the resourceVersion.
type TransformFunc = func(any) (any, error)

// Storage is the form in which objects are stored.
type Storage string

const (
	// Compact stores objects encoded, in protobuf if the server and the type support it, and
	// compressed. A read decodes. The package documentation has figures.
	Compact Storage = "Compact"
	// Decoded stores Go objects. A read copies. For custom kinds, which have no protobuf form,
	// reads are faster than with Compact and the memory is about ten times as large.
	Decoded Storage = "Decoded"
)

func (s Storage) known() bool { return s == "" || s == Compact || s == Decoded }
