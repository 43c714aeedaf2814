"""profgpu mcp: the official client's view, every tool, pages and keys, and messages that no client should send."""
import asyncio
import http.client as http_client
import json
import os
import socket
import subprocess
import time

import pytest

from conftest import ROOT, program

mcp = pytest.importorskip('mcp')
DEMO = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')
JOB = os.path.join(ROOT, 'examples', 'four-ranks')


def session(work, *, high_level=False):
    """Runs `work(session)` in a session of the official client."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    server = StdioServerParameters(command=program('PROFGPU', 'profgpu'), args=['mcp'])

    async def run():
        if high_level:
            async with mcp.Client(server) as client:
                return await work(client)
        async with stdio_client(server) as (read, write):
            async with ClientSession(read, write) as client:
                await client.initialize()
                return await work(client)

    return asyncio.run(asyncio.wait_for(run(), 60))


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    assert len(result.content) == 1
    return json.loads(result.content[0].text)


class Lines:
    """The server by hand: one message a line."""

    def __init__(self):
        self.process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.stdout.read() == b''   # nothing that was not asked for
        assert self.process.wait(60) == 0
        self.process.stdout.close()

    def send(self, data):
        self.process.stdin.write(data + b'\n')
        self.process.stdin.flush()

    def ask(self, message):
        self.send(message if isinstance(message, bytes) else json.dumps(message).encode())
        return json.loads(self.process.stdout.readline())

    def result(self, method, number=1, **params):
        answer = self.ask({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params})
        assert answer['id'] == number and answer['jsonrpc'] == '2.0', answer
        return answer['result']

    def tool(self, tool, **arguments):
        result = self.result('tools/call', name=tool, arguments=arguments)
        text = result['content'][0]['text']
        return text if result['isError'] else json.loads(text)


def test_the_official_client_finds_everything():
    async def work(client):
        tools = (await client.list_tools()).tools
        assert {t.name for t in tools} == {'open_run', 'verdict', 'findings', 'section', 'memory', 'roofline', 'sql', 'diff', 'explain'}
        assert all(t.annotations.read_only_hint and t.description and t.input_schema['additionalProperties'] is False for t in tools)
        uris = {str(r.uri) for r in (await client.list_resources()).resources}
        assert uris == {'profgpu://docs/agents', 'profgpu://docs/report-json', 'profgpu://docs/sql'}
        for uri in uris:
            assert len((await client.read_resource(uri)).contents[0].text) > 1000
        template = (await client.list_resource_templates()).resource_templates[0].uri_template
        rule = await client.read_resource(template.replace('{rule}', 'data-loading-bound'))
        assert 'num_workers' in rule.contents[0].text
        assert {p.name for p in (await client.list_prompts()).prompts} == {'diagnose_run', 'did_it_help'}
        prompt = await client.get_prompt('diagnose_run', {'path': 'a {path} b'})
        assert 'a {path} b' in prompt.messages[0].content.text
        await client.send_ping()

    session(work)


def test_a_client_that_probes_for_newer_protocols_settles_on_ours():
    async def work(client):
        return await call(client, 'verdict', run=DEMO)

    assert session(work, high_level=True)['verdict_kind'] == 'bottleneck'


def test_from_a_path_to_the_line_that_explains_it(analyze):
    report = analyze(DEMO)

    async def work(client):
        opened = await call(client, 'open_run', paths=[DEMO])
        assert opened['verdict'] == report['verdict'] and opened['run'] == 'r1' and 'kernels' in opened['sections']
        assert [f['key'] for f in opened['most_expensive']][0] == 'findings:data-loading-bound'
        found = await call(client, 'findings', run='r1')
        assert [row['rule'] for row in found['rows']] == [f['rule'] for f in report['findings']]
        one = await call(client, 'findings', run='r1', rule='data-loading-bound')
        assert one['total'] == 1 and one['rows'][0]['evidence'] == report['findings'][0]['evidence']
        text = (await call(client, 'explain', rule='data-loading-bound'))['text']
        assert 'What to change, best first' in text
        rows = await call(client, 'sql', run='r1', sql='select name, total_ns from kernels_by_name order by total_ns desc', limit=3)
        assert rows['columns'] == ['name', 'total_ns'] and len(rows['rows']) == 3 and rows['next_offset'] == 3
        memory = await call(client, 'memory', run='r1')
        assert memory['section'] == 'memory' and memory['fields']['peak_allocated_bytes'] == report['ranks'][0]['memory']['peak_allocated_bytes']
        assert 'rows' not in memory and len((await call(client, 'memory', run='r1', limit=4))['rows']) == 4

    session(work)


def test_roofline_has_kernels_page_by_page(analyze):
    kernels = analyze(DEMO)['ranks'][0]['roofline']['kernels']
    with Lines() as server:
        first = server.tool('roofline', run=DEMO, limit=3)
        assert first['fields']['mfu_pct'] > 0 and first['rows_of'] == 'roofline.kernels'
        assert first['total'] == len(kernels) and first['next_offset'] == 3
        assert [row['name'][:20] for row in first['rows']] == [k['name'][:20] for k in kernels[:3]]
        second = server.tool('roofline', run=DEMO, limit=3, offset=3)
        assert [row['name'][:20] for row in second['rows']] == [k['name'][:20] for k in kernels[3:6]] and 'fields' not in second
        one = server.tool('roofline', run=DEMO, key=first['rows'][1]['key'])
        assert one['total'] == 1 and one['rows'][0]['name'] == kernels[1]['name']
        some = server.tool('roofline', run=DEMO, contains='GEMM')
        assert 0 < some['total'] < len(kernels) and all('gemm' in json.dumps(row).lower() for row in some['rows'])


def test_help_names_every_tool():
    said = subprocess.run([program('PROFGPU', 'profgpu'), 'mcp', '--help'], capture_output=True, text=True, timeout=60).stdout
    with Lines() as server:
        tools = server.result('tools/list')['tools']
    assert f'Tools: {", ".join(t["name"] for t in tools)}.' in ' '.join(said.split())


def all_rows(server, **arguments):
    rows, offset = [], 0
    while offset is not None:
        page = server.tool('section', offset=offset, **arguments)
        rows += page['rows']
        offset = page.get('next_offset')
    return rows, page['total']


def test_pages_follow_each_other_and_keys_stay():
    with Lines() as server:
        small, total = all_rows(server, run=DEMO, name='kernels', limit=7)
        large, _ = all_rows(server, run=DEMO, name='kernels', limit=1000, max_chars=100000)
        keys = [row['key'] for row in small]
        assert total == len(small) == len(set(keys)) and keys == [row['key'] for row in large]
        one = server.tool('section', run=DEMO, name='kernels', key=keys[9])
        assert one['total'] == 1 and one['rows'][0]['name'].startswith(small[9]['name'].rstrip('…'))
        copies = server.tool('section', run=DEMO, name='kernels', contains='MEMCPY')
        assert copies['total'] == sum('memcpy' in row['name'].lower() for row in large) > 0


def test_keys_of_a_kernel_are_those_of_the_same_kernel_in_another_run(simulate):
    with Lines() as server:
        keys = [{row['name']: row['key'] for row in all_rows(server, run=str(simulate('--steps', '6', '--seed', seed)), name='kernels')[0]}
                for seed in ('1', '2')]
    same = keys[0].keys() & keys[1].keys()
    assert len(same) > 5 and all(keys[0][name] == keys[1][name] for name in same)


@pytest.mark.parametrize('tool,arguments', [
    ('section', {'name': 'ops'}), ('section', {'name': 'steps'}), ('findings', {}), ('section', {'name': 'idle.longest'}),
    ('sql', {'sql': 'select * from host'}), ('section', {'name': 'memory'})])
def test_answers_keep_their_budget(tool, arguments):
    with Lines() as server:
        for most in (1000, 3000):
            result = server.result('tools/call', name=tool, arguments={'run': DEMO, 'limit': 1000, 'max_chars': most, **arguments})
            assert len(result['content'][0]['text']) <= most + 500, tool   # one row is always there


def test_ranks_of_a_job(analyze):
    report = analyze(JOB)
    with Lines() as server:
        opened = server.tool('open_run', paths=[JOB])
        assert opened['ranks'] == 4 and 'cluster' in opened['sections']
        assert server.tool('section', run='r1', name='steps', rank=2)['rank'] == 2
        assert 'there is no rank 9' in server.tool('section', run='r1', name='steps', rank=9)
        late = server.tool('section', run='r1', name='cluster.stragglers')
        assert [row['rank'] for row in late['rows']] == [s['rank'] for s in report['cluster']['stragglers']]


def test_a_comparison_and_its_parts(simulate):
    before, after = str(simulate('--steps', '10', '--fault', 'data-loading-bound')), str(simulate('--steps', '10'))
    with Lines() as server:
        server.tool('open_run', paths=[after])
        found = server.tool('diff', before=before, after='r1', fail_on=['step_time > +3%'])
        assert found['verdict'] == 'faster' and found['gates'][0]['verdict'] == 'pass'
        assert found['waterfall']['rows'][0]['part'] == 'data_loading'
        assert ('data-loading-bound', 'gone') in {(f['rule'], f['change']) for f in found['findings_changed']}
        kernels = server.tool('diff', before=before, after='r1', part='kernels', limit=2)
        assert len(kernels['rows']) == 2 and kernels['rows'][0]['key'].startswith('kernels:')
        assert 'nothing is measured as' in server.tool('diff', before=before, after='r1', fail_on=['speed > 3'])


def test_a_file_that_changes_is_read_again(simulate, tmp_path):
    path = tmp_path / 'trace.json'
    path.write_bytes(open(simulate('--steps', '6'), 'rb').read())
    with Lines() as server:
        assert server.tool('open_run', paths=[str(path)])['measured_steps'] == server.tool('verdict', run='r1')['measured_steps']
        path.write_bytes(open(simulate('--steps', '9'), 'rb').read())
        more = server.tool('verdict', run='r1')
        assert more['run'] == 'r1' and more['measured_steps'] > 4
        path.unlink()
        assert 'trace.json' in server.tool('verdict', run='r1')


def test_a_file_of_a_ranks_folder_that_changes_is_read_again(simulate, tmp_path):
    path = tmp_path / 'job' / 'rank_0' / 'trace.json'
    path.parent.mkdir(parents=True)
    path.write_bytes(open(simulate('--steps', '6'), 'rb').read())
    with Lines() as server:
        steps = server.tool('open_run', paths=[str(tmp_path / 'job')])['measured_steps']
        path.write_bytes(open(simulate('--steps', '9'), 'rb').read())
        assert server.tool('verdict', run='r1')['measured_steps'] == steps + 3


def test_mistakes_are_answers_that_help():
    with Lines() as server:
        assert 'cannot' in (text := server.tool('verdict', run='/nowhere/trace.json')) or 'No such file' in text
        for path in ('-', '/dev/zero', '/proc/self/fd/0'):
            assert server.tool('verdict', run=path).startswith(path) and server.tool('diff', before=path, after=DEMO).startswith(path)
        assert 'did you mean kernels?' in server.tool('section', run=DEMO, name='kernel')
        assert 'unknown argument "ofset"' in (text := server.tool('findings', run=DEMO, ofset=3)) and 'offset' in text
        assert 'run is missing' in server.tool('verdict')
        assert 'limit must be a whole number' in server.tool('findings', run=DEMO, limit='ten')
        assert 'may not be modified' in server.tool('sql', run=DEMO, sql='delete from host')
        assert 'only read' in server.tool('sql', run=DEMO, sql="attach database '/tmp/x' as y")
        assert 'no such column' in server.tool('sql', run=DEMO, sql='select nmae from kernels')
        assert 'did you mean' in server.tool('explain', rule='data-loading-bond')
        assert 'there is no rule "nope"' in server.tool('findings', run=DEMO, rule='nope')
        assert server.tool('findings', run=DEMO, offset=99)['rows'] == []


def test_an_endless_query_ends():
    with Lines() as server:
        text = server.tool('sql', run=DEMO, sql='with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n')
        assert 'takes too long' in text
        rows = server.tool('sql', run=DEMO, sql='with recursive n(i) as (select 1 union all select i + 1 from n) select i from n', limit=2)
        assert rows['rows'] == [[1], [2]] and rows['next_offset'] == 2


@pytest.mark.parametrize('wanted,given', [('2025-06-18', '2025-06-18'), ('2025-03-26', '2025-03-26'), ('2024-11-05', '2024-11-05'),
                                          ('2031-01-01', '2025-06-18')])
def test_protocol_versions(wanted, given):
    with Lines() as server:
        result = server.result('initialize', protocolVersion=wanted, capabilities={}, clientInfo={'name': 't', 'version': '1'})
        assert result['protocolVersion'] == given and result['serverInfo']['name'] == 'profgpu'
        server.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        assert server.result('ping', number='a text') == {}


HOSTILE = [
    (b'', None), (b'{', -32700), (b'nonsense', -32700), (b'"text"', -32600), (b'[]', -32600), (b'[1]', -32600), (b'null', -32700),
    (b'{"jsonrpc": "2.0", "id": 1}', -32600), (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600), (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 7}', -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}', -32601),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x"}}', -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}', -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}', -32602),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}', -32002),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "did_it_help"}}', -32602),
    (b'[' * 100000, -32700), (b'{"a":' * 5000 + b'1' + b'}' * 5000, -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "' + b'\xff\xfe' * 50 + b'"}', -32601),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "' + b'x' * 5_000_000 + b'"}', -32700),
    (b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}', -32700),
    (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', None), (b'{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "rm"}}', None),
]


@pytest.mark.parametrize('message,code', HOSTILE, ids=range(len(HOSTILE)))
def test_messages_that_no_client_should_send(message, code):
    with Lines() as server:
        if code is None:
            server.send(message)
        else:
            answer = server.ask(message)
            answer = answer[0] if isinstance(answer, list) else answer
            assert answer['error']['code'] == code and 'result' not in answer
        assert server.result('ping') == {}   # and it goes on


@pytest.mark.parametrize('before,behind', [(b'', b'\r'), (b' ', b''), (b'', b' \t')])
def test_white_space_around_a_message_is_json(before, behind):
    with Lines() as server:
        server.send(before + b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}' + behind)
        assert json.loads(server.process.stdout.readline()) == {'jsonrpc': '2.0', 'id': 7, 'result': {}}


def test_a_batch_of_an_older_version():
    with Lines() as server:
        answers = server.ask([{'jsonrpc': '2.0', 'id': 1, 'method': 'ping'}, {'jsonrpc': '2.0', 'method': 'notifications/initialized'},
                              {'jsonrpc': '2.0', 'id': 2, 'method': 'nothing'}])
        assert [a['id'] for a in answers] == [1, 2] and answers[1]['error']['code'] == -32601


@pytest.fixture
def http():
    """The URL of a server and its token."""
    process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'mcp', '--http', '0'], stderr=subprocess.PIPE, text=True)
    url = process.stderr.readline().strip().removeprefix('profgpu mcp: ')
    token = process.stderr.readline().strip().removeprefix('Authorization: Bearer ')
    assert url.startswith('http://127.0.0.1:') and len(token) == 32
    yield url, token
    assert process.poll() is None
    process.terminate()
    process.wait(60)
    process.stderr.close()


PING = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'ping'})


def post(url, body=PING, method='POST', path=None, **headers):
    """Status and text. None in `headers`: without that one."""
    host, port = url.split('/')[2].split(':')
    connection = http_client.HTTPConnection(host, int(port), timeout=60)
    connection.putrequest(method, path or '/mcp', skip_host=True)
    given = {'Host': f'{host}:{port}', 'Content-Type': 'application/json', 'Content-Length': str(len(body))}
    for name, value in (given | {k.replace('_', '-'): v for k, v in headers.items()}).items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body.encode())
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_official_client_over_http(http):
    httpx = pytest.importorskip('httpx2')
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    url, token = http

    async def run():
        async with httpx.AsyncClient(headers={'Authorization': 'Bearer ' + token}) as client:
            async with streamable_http_client(url, http_client=client) as streams:
                async with ClientSession(*streams[:2]) as session:
                    await session.initialize()
                    return await call(session, 'verdict', run=DEMO)

    assert asyncio.run(asyncio.wait_for(run(), 60))['verdict_kind'] == 'bottleneck'


def test_http_is_for_this_machine_and_who_has_the_token(http):
    url, token = http
    mine = {'Authorization': 'Bearer ' + token}
    assert post(url, **mine) == (200, '{"jsonrpc": "2.0", "id": 1, "result": {}}')
    assert post(url, '{"jsonrpc": "2.0", "method": "notifications/initialized"}', **mine) == (202, '')
    assert post(url, Authorization='bearer ' + token)[0] == 200, 'a scheme has no case'
    with socket.create_connection(('127.0.0.1', int(url.split('/')[2].split(':')[1]))):
        begin = time.monotonic()   # a client that says nothing holds up no other
        assert post(url, **mine)[0] == 200 and time.monotonic() - begin < 4
    assert post(url, Transfer_Encoding='chunked', **mine)[0] == 411
    for wrong in ({}, {'Authorization': 'Bearer ' + token[:-1]}, {'Authorization': 'Bearer ' + token + '0'}, {'Authorization': 'Basic ' + token},
                  {'Authorization': 'Bearer '}):
        assert post(url, **wrong)[0] == 401
    for here in ('http://localhost:3000', 'http://127.0.0.1', 'http://[::1]:8'):
        assert post(url, Origin=here, **mine)[0] == 200
    for elsewhere in ('http://evil.example', 'http://localhost.evil.example', 'null', 'http://127.0.0.1.evil.example:80', 'file://'):
        assert post(url, Origin=elsewhere, **mine)[0] == 403
    for host in ('evil.example', 'evil.example:80', '192.168.0.1', '', None):
        assert post(url, Host=host, **mine)[0] == 403
    assert post(url, method='GET', **mine)[0] == 405 and post(url, method='DELETE', **mine)[0] == 405
    assert post(url, path='/other', **mine)[0] == 404
    assert post(url, Content_Type='text/plain', **mine)[0] == 415
    for version in ('2025-06-18', '2025-03-26', '2024-11-05'):
        assert post(url, MCP_Protocol_Version=version, **mine)[0] == 200
    status, text = post(url, MCP_Protocol_Version='1999-01-01', **mine)
    assert status == 400 and '1999-01-01' in json.loads(text)['error']['message']


@pytest.mark.parametrize('sent', [b'', b'\r\n\r\n', b'nonsense\r\n\r\n', b'POST /mcp HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n',
                                  b'POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n', b'POST /mcp HTTP/1.1\r\n' + b'X: y\r\n' * 5000,
                                  b'POST /mcp HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc', b'\x00\xff' * 100 + b'\r\n\r\n'])
def test_broken_http(http, sent):
    url, token = http
    with socket.create_connection(('127.0.0.1', int(url.split('/')[2].split(':')[1])), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        try:
            answer = connection.recv(1000)
        except ConnectionResetError:
            answer = b''
        assert answer == b'' or answer.startswith(b'HTTP/1.1 4')
    assert post(url, Authorization='Bearer ' + token)[0] == 200


def test_a_port_that_is_taken(http):
    port = http[0].split('/')[2].split(':')[1]
    result = subprocess.run([program('PROFGPU', 'profgpu'), 'mcp', '--http', port], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and 'cannot listen on 127.0.0.1' in result.stderr
