package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newHealth(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health [url]",
		Short: "Ask a running server whether it is alive or ready",
		Long: `Asks a running server's probe and exits 0 when it answers 200, 1 when it does
not. Made for container health checks, where no curl is at hand.`,
		Example: `  wavehouse health
  wavehouse health --ready http://localhost:8080`,
		Args: cobra.MaximumNArgs(1),
	}
	ready := cmd.Flags().Bool("ready", false, "ask /readyz instead of /livez")
	timeout := cmd.Flags().Duration("timeout", 3*time.Second, "how long to wait for the answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		url := "http://127.0.0.1:" + healthPort(t.env)
		if len(args) > 0 {
			url = strings.TrimRight(args[0], "/")
		}
		probe := "/livez"
		if *ready {
			probe = "/readyz"
		}
		return askHealth(cmd.Context(), t, url+probe, *timeout)
	}
	return cmd
}

// healthPort is where probes and operations are served.
func healthPort(env []string) string {
	for _, name := range []string{"WH_SERVER_OPS_PORT", "WH_SERVER_PORT"} {
		if port := lookup(env, name); port != "" && port != "0" {
			return port
		}
	}
	return "8080"
}

func askHealth(ctx context.Context, t *terminal, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return &usageError{fmt.Errorf("url %q: %w", url, err)}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	t.printf("%s\n", strings.TrimSpace(string(body)))
	if response.StatusCode != http.StatusOK {
		return &silentError{fmt.Errorf("%s answered %s", url, response.Status)}
	}
	return nil
}
