// Package batch defines jobs and cron jobs.
package batch
