"""Dumps of NCCL's flight recorder with known faults, as PyTorch writes them."""
import json
import pickle

BEGIN = 1_750_000_000_000_000_000


class Job:
    """Ranks that call collectives in turn; what a rank has not completed is open when the dumps are written."""

    def __init__(self, groups, only_open=True, version='2.9'):
        """`groups`: {name: (description, [ranks])}."""
        self.groups, self.only_open, self.version = groups, only_open, version
        self.world = 1 + max(r for _, ranks in groups.values() for r in ranks)
        self.calls = {r: [] for r in range(self.world)}
        self.numbers, self.p2p = {}, {}
        self.now = 0

    def local_id(self, rank, group):
        return sorted(g for g, (_, ranks) in self.groups.items() if rank in ranks).index(group)

    def call(self, rank, group, name='all_reduce', state='scheduled', sizes=((1024, 16),), dtype='Float', number=None, p2p=False):
        counts = self.p2p if p2p else self.numbers
        n = counts[rank, group] = number if number is not None else counts.get((rank, group), 0) + 1
        self.now += 1000
        self.calls[rank].append({
            'record_id': len(self.calls[rank]), 'pg_id': self.local_id(rank, group), 'process_group': (group, self.groups[group][0]),
            'collective_seq_id': 0 if p2p else n, 'p2p_seq_id': n if p2p else 0, 'op_id': n, 'profiling_name': 'nccl:' + name,
            'time_created_ns': BEGIN + self.now, 'input_sizes': [list(s) for s in sizes], 'input_dtypes': [dtype] * len(sizes),
            'output_sizes': [list(s) for s in sizes], 'output_dtypes': [dtype] * len(sizes), 'state': state,
            'time_discovered_started_ns': BEGIN + self.now + 10 if state != 'scheduled' else None,
            'time_discovered_completed_ns': BEGIN + self.now + 20 if state == 'completed' else None,
            'retired': state == 'completed', 'timeout_ms': 600000, 'is_p2p': p2p,
            'frames': [{'name': 'all_reduce', 'filename': '/env/lib/python3/site-packages/torch/distributed/distributed_c10d.py', 'line': 2800},
                       {'name': 'train_step', 'filename': '/home/user/train.py', 'line': 100 + rank}]})

    def coalesced(self, rank, group, *parts, state='scheduled', p2p=True, **more):
        """batch_isend_irecv, or a collective of a list: PyTorch gives the state of the parts to what follows them alone."""
        counts = self.p2p if p2p else self.numbers
        number = counts.get((rank, group), 0) + 1
        for part in parts:
            self.call(rank, group, part, number=number, p2p=p2p, **more)
        self.call(rank, group, 'coalesced', number=number, p2p=p2p, state=state, sizes=())

    def collective(self, group, **more):
        for rank in self.groups[group][1]:
            self.call(rank, group, **more)

    def done(self, group, times=1, **more):
        for _ in range(times):
            self.collective(group, state='completed', **more)

    def dump(self, rank):
        mine = {g: v for g, v in self.groups.items() if rank in v[1]}
        status = {}
        for g in mine:
            of_group = [c for c in self.calls[rank] if c['process_group'][0] == g and not c['is_p2p']]
            completed = [c['collective_seq_id'] for c in of_group if c['state'] == 'completed']
            status[str(self.local_id(rank, g))] = {
                'last_enqueued_collective': max((c['collective_seq_id'] for c in of_group), default=-1), 'last_started_collective': -1,
                'last_completed_collective': max(completed, default=-1)}
        return {'version': self.version, 'nccl_version': '2.27.3',
                'pg_config': {g: {'name': g, 'desc': d, 'ranks': str(ranks)} for g, (d, ranks) in mine.items()}, 'pg_status': status,
                'entries': [c for c in self.calls[rank] if not self.only_open or c['state'] != 'completed']}

    def write(self, folder, without=(), as_json=False, name='nccl_trace_rank_{}'):
        folder.mkdir(exist_ok=True)
        for rank in range(self.world):
            if rank in without:
                continue
            if as_json:
                dump = self.dump(rank)
                for status in dump['pg_status'].values():
                    status.update({k: str(v) for k, v in status.items()})
                data = json.dumps(dump).encode()
            else:
                data = pickle.dumps(self.dump(rank), protocol=2)
            (folder / name.format(rank)).write_bytes(data)
        return folder
