// Package exampletest has the test environment of the examples: an API server and a controller in a
// bubble of testing/synctest, and the log of the controller.
//
//	w := exampletest.New(t, "manifests", addToScheme) // outside of the bubble, as it reads files
//	synctest.Test(t, func(t *testing.T) {
//		w.Start(t)
//		w.Apply("crd/...yaml")
//		w.Run(func(ctx context.Context, cfg *rest.Config, logger logr.Logger) error { ... })
//		...
//		w.Stop()
//	})
//
// Time is virtual: while a test sleeps, all work that is due in that time is done.
package exampletest

import (
	"context"
	"io/fs"
	"os"
	"path"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// A World is an API server with a controller. Its methods must be called by one goroutine, and end
// the test on an error.
type World struct {
	*testing.T
	Client client.WithWatch // of the server
	Log    *Log             // what the controller says
	// Controllers run in the server. Set it before Start. Default: none.
	Controllers kapok.Controllers

	scheme *runtime.Scheme
	files  map[string][]byte // of manifests
	server *kapok.Server
	end    context.CancelFunc // of the controller
	ended  chan error
}

// New reads all manifests below a directory. addToScheme adds the kinds of the example to those
// that are built in.
func New(t *testing.T, dir string, addToScheme func(*runtime.Scheme) error) *World {
	w := &World{T: t, Log: &Log{}, scheme: runtime.NewScheme(), files: map[string][]byte{}}
	w.Must(clientgoscheme.AddToScheme(w.scheme))
	w.Must(addToScheme(w.scheme))
	w.Must(fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".yaml" {
			w.files[name], err = fs.ReadFile(os.DirFS(dir), name)
		}
		return err
	}))
	return w
}

// Start starts the server, in the bubble of t.
func (w *World) Start(t *testing.T) {
	w.T = t
	server, err := kapok.Start(t.Context(), kapok.Options{Controllers: w.Controllers})
	w.Must(err)
	w.server = server
	w.Client, err = client.NewWithWatch(server.Config(), client.Options{Scheme: w.scheme})
	w.Must(err)
}

// Beside returns a World with the same server, for another controller.
func (w *World) Beside() *World {
	return &World{T: w.T, Client: w.Client, Log: &Log{}, scheme: w.scheme, files: w.files, server: w.server}
}

// Run runs a controller until StopController or Stop.
func (w *World) Run(run func(context.Context, *rest.Config, logr.Logger) error) {
	ctx, cancel := context.WithCancel(w.Context())
	w.end, w.ended = cancel, make(chan error, 1)
	go func() { w.ended <- run(ctx, w.server.Config(), logr.FromSlogHandler(w.Log)) }()
}

// StopController stops the controller of Run, and waits for it.
func (w *World) StopController() {
	w.Helper()
	w.end()
	w.Must(<-w.ended)
}

// Stop ends the controller, and then the server.
func (w *World) Stop() {
	w.Helper()
	w.StopController()
	w.Must(w.server.Stop())
}

// Must ends the test if err is not nil.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v\nlog:\n%s", err, w.Log)
	}
}

// Manifest returns the object of a manifest. name is its path below the directory of New.
func (w *World) Manifest(name string) *unstructured.Unstructured {
	w.Helper()
	text, ok := w.files[name]
	if !ok {
		w.Fatalf("there is no manifest %s", name)
	}
	u := &unstructured.Unstructured{}
	w.Must(yaml.Unmarshal(text, &u.Object))
	return u
}

// Apply applies a manifest like kubectl apply --server-side -f. When it returns, the kind of an
// applied definition is served.
func (w *World) Apply(name string) {
	w.Helper()
	w.ApplyObject(w.Manifest(name))
}

// ApplyObject is Apply for an object, in the namespace default if it names none.
func (w *World) ApplyObject(u *unstructured.Unstructured) {
	w.Helper()
	namespaced, err := w.Client.IsObjectNamespaced(u)
	w.Must(err)
	if namespaced && u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	w.Must(w.Client.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership))
	if u.GetKind() == "CustomResourceDefinition" {
		time.Sleep(time.Second)
	}
}
