"""GraphQL over HTTP, WebSocket and SSE: documents, cost limits, the compiled executor, shared subscriptions."""
