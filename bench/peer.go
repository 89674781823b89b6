package main

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/duckdb/duckdb-go/v2"
)

// peer is bare DuckDB of the version that the engine links, with as many threads.
type peer struct {
	c    *duckdb.Connector
	conn driver.Conn
}

func openPeer(threads int) (*peer, error) {
	c, err := duckdb.NewConnector(fmt.Sprintf("?threads=%d&memory_limit=1GiB", threads), nil)
	if err != nil {
		return nil, err
	}
	conn, err := c.Connect(context.Background())
	if err != nil {
		c.Close()
		return nil, err
	}
	return &peer{c: c, conn: conn}, nil
}

func (p *peer) drain(sql string) error {
	rows, err := p.conn.(driver.QueryerContext).QueryContext(context.Background(), sql, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	dest := make([]driver.Value, len(rows.Columns()))
	for rows.Next(dest) == nil {
	}
	return nil
}

func (p *peer) close() {
	p.conn.Close()
	p.c.Close()
}
