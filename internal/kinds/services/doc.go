// Package services defines services, their endpoints and addresses, ingresses and network policies.
package services
