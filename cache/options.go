package cache

import (
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kapok-dev/kapok/client"
)

// Options are the settings of a Cache. The zero value keeps all objects of each kind that is asked for. What is said of a namespace comes
// before what is said of the kind, and that before what is said of all.
type Options struct {
	HTTPClient *http.Client    // default: made of the rest.Config
	Scheme     *runtime.Scheme // default: that of k8s.io/client-go/kubernetes/scheme
	Mapper     meta.RESTMapper // default: one that asks the server
	Logger     *slog.Logger    // default: slog.Default

	// SyncPeriod is how often handlers hear of all objects anew. Default: never.
	SyncPeriod *time.Duration
	// DefaultNamespaces are the namespaces that are kept, with settings for each; metav1.NamespaceAll stands for those that are not named. They say
	// nothing of kinds without namespaces. Default: all namespaces.
	DefaultNamespaces map[string]Config
	// DefaultLabelSelector and DefaultFieldSelector restrict what is kept. Default: everything.
	DefaultLabelSelector labels.Selector
	DefaultFieldSelector fields.Selector
	// DefaultTransform changes objects before they are kept.
	DefaultTransform TransformFunc
	// DefaultStorage is how objects are kept. Default: Compact.
	DefaultStorage Storage
	// ByObject are settings of single kinds.
	ByObject map[client.Object]ByObject
}

// ByObject are the settings of a kind. What is not set is as in Options.
type ByObject struct {
	Namespaces map[string]Config
	Label      labels.Selector
	Field      fields.Selector
	Transform  TransformFunc
	Storage    Storage
	SyncPeriod *time.Duration
}

// Config are the settings of a namespace. What is not set is as for the kind.
type Config struct {
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	Transform     TransformFunc
}

// A TransformFunc changes an object before it is kept. It gets and returns a client.Object, or fails, in which case the object is
// kept as it came, and the failure is logged. It must not change the name, the namespace, the uid or the resourceVersion.
type TransformFunc func(any) (any, error)

// Storage is how objects are kept.
type Storage string

const (
	// Compact keeps objects encoded, as protobuf where the server and the type have it, and packed. A read decodes. See the package
	// documentation for figures.
	Compact Storage = "Compact"
	// Decoded keeps Go objects. A read copies. For custom kinds, which have no protobuf form, this is faster, and takes about ten times the
	// memory.
	Decoded Storage = "Decoded"
)

func (s Storage) known() bool { return s == "" || s == Compact || s == Decoded }
