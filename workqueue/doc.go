// Package workqueue is the queue between the events of a controller and its workers: handlers add
// keys, workers take them, and keys that are added while a worker handles them are not lost.
//
//	queue := workqueue.New(workqueue.Options[string]{Name: "widgets"})
//	go func() {
//		for {
//			key, shutdown := queue.Get()
//			if shutdown {
//				return
//			}
//			if err := reconcile(key); err != nil {
//				queue.AddRateLimited(key)
//			} else {
//				queue.Forget(key)
//			}
//			queue.Done(key)
//		}
//	}()
//	queue.Add("default/a")
//
// # Guarantees
//
//   - A key is in the queue at most once, however often it is added before a worker takes it.
//   - No two workers hold the same key at the same time. A key that is added while a worker holds
//     it is ready again after Done.
//   - Keys are ordered by priority, and within a priority by the time at which they became ready.
//     With [Options.Group] the groups of a priority take turns: a group of ten thousand keys delays
//     a group of one key by one key.
//   - A delayed key stays delayed, even if it is added again with a longer delay: the earliest time
//     counts.
//   - After [Queue.ShutDown] new keys are ignored, ready keys are still returned, and delayed keys
//     are dropped.
//
// These are the properties of k8s.io/client-go/util/workqueue. The methods have the same names;
// priorities are those of controller-runtime's queue. Groups are new.
//
// # Goroutines and locks
//
// A Queue has one lock and no goroutine. It reads the clock through package time, and works in a
// bubble of testing/synctest. One timer serves all delays. Metrics are read when they are
// collected.
package workqueue
