from pydantic import BaseModel

from webhooks_app import EventType, registry


class OrderPaid(BaseModel):
    order: str
    amount: int


ORDER_PAID = EventType(
    name="order.paid",
    group="Shop",
    description="An order was paid.",
    data_model=OrderPaid,
    example={"order": "ord_1", "amount": 4200},
)

registry.register(ORDER_PAID)
