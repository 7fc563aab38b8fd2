// Package storage defines volumes, claims, storage classes and the objects that CSI drivers
// register.
package storage
