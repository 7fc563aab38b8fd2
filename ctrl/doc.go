// Package ctrl is the entry point of the framework: one import with the names that most controllers
// need. It works with any Kubernetes API server.
//
//	type Isolator struct{ ctrl.Client }
//
//	func (r *Isolator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
//		namespace := &corev1.Namespace{}
//		if err := r.Get(ctx, req.NamespacedName, namespace); err != nil {
//			return ctrl.Result{}, ctrl.IgnoreNotFound(err)
//		}
//		...
//	}
//
//	func main() {
//		ctrl.RegisterFlags(nil)
//		flag.Parse()
//		mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
//		...
//		err = ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Complete(&Isolator{mgr.GetClient()})
//		...
//		err = mgr.Start(ctrl.SetupSignalHandler())
//	}
//
// The example of this package is this controller in full. Every name here is an alias of, or a call
// to, a name of the packages below, so that programs can mix both. The names are those of
// sigs.k8s.io/controller-runtime where it has them; `kapok port` rewrites the imports of a project
// that moves.
//
// # Tour
//
// The packages of the framework, in the order in which a program meets them:
//
//  1. client reads and writes objects: Go types, unstructured objects, or metadata alone.
//     client/scheme registers the Go types of your own kinds, client/interceptor intercepts calls.
//  2. manager runs a program: it creates the client, the cache and the servers, elects a leader,
//     and starts and stops everything in order. Below it, log and zap log, healthz answers probes,
//     metricsserver serves metrics, certwatcher reloads certificates, and cluster connects a
//     manager to further API servers.
//  3. controller calls a Reconciler when an object changes. controller/predicate drops events,
//     controller/handler maps them to requests, controller/finalizer runs cleanup before a
//     deletion.
//  4. cache keeps the objects that a manager's client reads, and delivers their events.
//  5. workqueue orders and retries requests between the two.
//  6. webhook serves admission and conversion webhooks; convert converts between the versions of a
//     kind.
//  7. kapoktest, which is not part of the framework, runs an API server inside a test, optionally
//     in virtual time.
//
// A controller needs 1 to 3. The other packages work behind them until their options matter.
package ctrl
