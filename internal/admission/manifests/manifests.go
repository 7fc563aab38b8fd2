// Package manifests reads admission policies and configurations of webhooks from the files of a
// directory, as kube-apiserver's feature ManifestBasedAdmissionControlConfig does (KEP-5793).
//
//	dir, err := manifests.Open(ctx, manifests.Options{Plugin: "ValidatingAdmissionPolicy", Path: path, ...})
//	if err != nil {
//		return err
//	}
//	go manifests.Watch(ctx, dir)
//
// A [Dir] has all files with the extensions .yaml, .yml and .json. An object is decoded strictly,
// gets its defaults, and is validated as a new object of the API. It must not depend on the API, so
// that it is in effect from the first request on: policies have no parameters, and webhooks have a
// URL. Its name has a suffix that the API reserves for such objects. One invalid object makes the
// directory invalid; the objects that were read last remain in effect then.
//
// The package polls, as package reload does. It starts no goroutine. A Dir has no lock: it belongs
// to one goroutine at a time.
package manifests

import (
	"context"
	"log/slog"
	"time"

	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apiserver/pkg/admission/plugin/manifest"
)

// Options describe a directory. All fields are required.
type Options struct {
	Plugin  string   // the admission plugin, for metrics and the log
	Path    string   // of the directory
	Plurals []string // the resources of admissionregistration.k8s.io that the directory may have
	// Use puts objects in effect, in place of those before. They are in the order of their names.
	Use      func(Objects) error
	Registry *resource.Registry
	Metrics  *Metrics
	Logger   *slog.Logger
}

// Objects are the objects of a directory by the plurals of their resources.
type Objects map[string][]resource.Tree

// A Dir is a directory whose objects are in effect.
type Dir struct {
	options  Options
	hash     string // of the files that were read last and are valid
	reported string // the error that was logged last; "" once the directory is valid again
}

// Open puts the objects of a directory in effect. The error names the file and the object.
func Open(ctx context.Context, o Options) (*Dir, error) {
	d := &Dir{options: o}
	if _, err := d.read(ctx, true); err != nil {
		return nil, err
	}
	return d, nil
}

// read reads the files, and puts them in effect if they differ from those before.
func (d *Dir) read(ctx context.Context, first bool) (changed bool, err error) {
	docs, hash, err := manifest.LoadFiles(d.options.Path)
	if err != nil || hash == d.hash && !first {
		return false, err
	}
	objects, err := d.options.load(ctx, docs)
	if err != nil {
		return false, err
	}
	if err := d.options.Use(objects); err != nil {
		return false, err
	}
	d.hash = hash
	d.options.Metrics.loaded(d.options.Plugin, hash)
	return true, nil
}

// Watch reads directories at the interval of package reload until ctx is done. It logs and counts
// when one was put in effect, and once when one is invalid.
func Watch(ctx context.Context, dirs ...*Dir) {
	tick := time.NewTicker(reload.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, d := range dirs {
			d.refresh(ctx)
		}
	}
}

func (d *Dir) refresh(ctx context.Context) {
	log := d.options.Logger.With("plugin", d.options.Plugin, "dir", d.options.Path)
	changed, err := d.read(ctx, false)
	switch {
	case ctx.Err() != nil: // which may be why validation has failed
	case err == nil:
		d.reported = ""
		if changed {
			log.Info("admission manifests loaded")
		}
	case err.Error() != d.reported:
		d.reported = err.Error()
		d.options.Metrics.failed(d.options.Plugin)
		log.Error("admission manifests not loaded: the previous ones remain in effect", "err", err)
	}
}
