// Package flow defines flow schemas and priority levels.
package flow
