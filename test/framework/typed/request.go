// Package main is an operator of several clusters, whose requests have a type of its own.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// A Request names an object of a cluster.
type Request struct {
	Cluster string
	types.NamespacedName
}

func (r Request) String() string { return r.Cluster + "#" + r.NamespacedName.String() }

// objects maps the objects of a cluster to requests.
func objects[T client.Object](cluster string) handler.TypedEventHandler[T, Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj T) []Request {
		return []Request{{Cluster: cluster, NamespacedName: client.ObjectKeyFromObject(obj)}}
	})
}

// changes passes updates of what a function returns.
func changes[T client.Object, V comparable](of func(T) V) predicate.TypedPredicate[T] {
	return predicate.And(
		predicate.Or[T](predicate.TypedGenerationChangedPredicate[T]{}, predicate.TypedLabelChangedPredicate[T]{},
			predicate.TypedAnnotationChangedPredicate[T]{}, differs(of)),
		predicate.Not(predicate.NewTypedPredicateFuncs(func(obj T) bool { return obj.GetDeletionTimestamp() != nil })),
		predicate.TypedResourceVersionChangedPredicate[T]{})
}
