"""Histories that broke a promise once, shrunk. Each has the fault that it showed."""

from __future__ import annotations

from .plan import Action, Plan, WebhookPlan

KEPT = {
    "an expired delivery counts as in flight until its lease ends": Plan(
        272,
        database="sqlite",
        workers=1,
        window=160,
        cap=10,
        timeout=5.0,
        lease=12.0,
        end=15.0,
        webhooks=[WebhookPlan(1, "ok"), WebhookPlan(0, "slowly fails", status="pending")],
        actions=[Action(11.248055258757521, "emit", 1, 0.9770401416499939)],
        is_listening=False,
    ),
    "a new worker overlooks the retry of the one that it replaces": Plan(
        43072336466,
        database="postgresql",
        workers=1,
        window=64,
        cap=2,
        batch_size=3,
        timeout=10.0,
        lease=20.0,
        end=30.0,
        webhooks=[WebhookPlan(1, "no content")],
        actions=[Action(5.176338793978072, "emit", 0, 0.19029582138217704), Action(7.49718713480858, "stop", 0, 0.04)],
        is_listening=True,
    ),
    "the room that a stopping worker leaves below a webhook's limit is found by the sweep alone": Plan(
        20608,
        database="postgresql",
        workers=1,
        window=4,
        cap=2,
        timeout=10.0,
        lease=20.0,
        end=12.0,
        webhooks=[WebhookPlan(0, "slow")],
        actions=[
            *(Action(0.1 * number, "emit", 0, 0.4750826650346298) for number in range(3)),
            Action(3.0, "stop", 1, 0.4787617869331785),
        ],
        is_listening=True,
    ),
    "two workers share a webhook's limit, and neither looks when the other's request ends": Plan(
        228348385446,
        database="mariadb",
        workers=2,
        window=160,
        cap=10,
        timeout=5.0,
        lease=12.0,
        end=12.0,
        webhooks=[WebhookPlan(0, "uneven", max_in_flight=2)],
        actions=[
            Action(0.4539533384726583, "emit", 0, 0.19882262556069502),
            Action(1.6636232646413132, "emit", 0, 0.37818229031792283),
            Action(1.79695114401857, "emit", 0, 0.1913534387305503),
            Action(2.476485940436559, "emit", 0, 0.3240541320190273),
            Action(2.5206522301366228, "emit", 0, 0.36830405766160446),
            Action(2.828418559180857, "emit", 0, 0.5256822483093635),
        ],
        is_listening=True,
    ),
}
