// Package workqueue is the queue between what a controller hears and what it does about it: handlers add keys, workers take
// them, and what happens meanwhile is remembered.
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
// # What it promises
//
//   - Each key is in the queue once, however often it is added before a worker takes it.
//   - No two workers have the same key at a time. A key that is added while a worker has it comes back when the worker is
//     done, so that no change goes unseen.
//   - Keys come out by priority, those of the same priority in the order in which they became ready. With [Options.Group]
//     the groups of a priority take turns: a group of ten thousand keys delays a group of one by one key.
//   - A delayed key stays delayed, whatever else is added; of two delays of one key the earlier counts.
//   - After [Queue.ShutDown] nothing comes in any longer, what is ready still comes out, and what is delayed is dropped.
//
// These are the properties of k8s.io/client-go/util/workqueue, whose methods have the same names here, so that a Queue is one of its
// TypedRateLimitingInterface; priorities are those of controller-runtime's queue. Groups are new.
//
// # Goroutines and locks
//
// A Queue has one lock and no goroutine, and it reads the clock through package time: it works in a bubble of
// testing/synctest. Delays are one timer for the earliest of them. Metrics are read when somebody looks at them.
package workqueue
