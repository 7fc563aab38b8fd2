// Package pods defines pods and the kinds around them: bindings, evictions, disruption budgets,
// priority classes and runtime classes.
package pods
